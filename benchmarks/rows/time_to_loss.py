"""The table of a row whose sides train until they reach a loss: seeds, steps, seconds and losses."""

from collections.abc import Iterable
from statistics import median

from rows.figures import OURS, Figures, format_number, markdown_tables

HEADER = ["side", "seed", "ms a step", "steps", "seconds to 1.90", "the same characters", "loss at the end", "the same"]


def all_tables(results: Iterable[Figures]) -> str:
    """The tables of all rows, followed by one for each row that trains to a loss."""
    results = list(results)
    parts = [markdown_tables(results)] if results else []
    for result in results:
        facts = next((column["facts"] for column in result["columns"].values()), {})
        if "runs" in facts.get(OURS, {}):
            runs = {side: side_facts["runs"] for side, side_facts in facts.items()}
            lines = [[side, *run_cells(run)] for side, side_runs in runs.items() for run in side_runs]
            lines.append(speedup_cells(runs))
            rows = "\n".join(f"| {' | '.join(line)} |" for line in [HEADER, ["---"] * len(HEADER), *lines])
            parts.append(f"`{result['row']}`, run by run, {result['machine'].split(', torch')[0]}:\n\n{rows}")
    return "\n\n".join(parts)


def run_cells(run: Figures) -> list[str]:
    """A line of the table: when a run reached the loss, counted in both ways, and its final losses."""
    own, same, end = run["first"]["own"], run["first"]["same"], run["end"]
    times_to_loss = [f"{point['seconds']:.1f}" if point else f"not in {end['seconds']:.1f}" for point in (own, same)]
    step = format_number(end["seconds"] / end["step"] * 1000)
    steps = f"{own['step']} of {end['step']}" if own else f"{end['step']}"
    return [str(run["seed"]), step, steps, *times_to_loss, f"{end['own']:.3f}", f"{end['same']:.3f}"]


def speedup_cells(runs: Figures) -> list[str]:
    """The last line: the speed-up in reaching the loss, as the median over the seeds."""
    (peer,) = (side for side in runs if side != OURS)
    speedups = []
    for kind in ("own", "same"):
        pairs = [(a["first"][kind], b["first"][kind] or b["end"]) for a, b in zip(runs[OURS], runs[peer], strict=True)]
        ratios = [theirs["seconds"] / ours["seconds"] if ours else 0.0 for ours, theirs in pairs]
        speedups.append(f"{format_number(median(ratios))}x sooner")
    return ["median", "", "", "", *speedups, "", ""]
