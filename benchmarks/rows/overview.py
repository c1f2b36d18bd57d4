"""The tables at the top of docs/benchmarks.md: every row's figures and goals, on each machine."""

import re
from collections.abc import Iterable

from rows.figures import OURS, Figures, format_number

Lines = dict[tuple[str, str], dict[str, str]]  # (row, peer) -> machine -> its figure


def overview_tables(results: Iterable[Figures]) -> str:
    """A table of the CPU rows, and one of the GPU rows."""
    results = list(results)
    on_cpu, on_gpu = ([one for one in results if one["row"].startswith("gpu-") == gpu] for gpu in (False, True))
    return "\n\n".join(overview_table(part) for part in (on_cpu, on_gpu) if part)


def overview_table(results: Iterable[Figures]) -> str:
    """A table with a line per row and peer and a column per machine; goals that are met are bold."""
    machines: dict[str, None] = {}
    lines: Lines = {}
    for result in results:
        machine = re.split(r", \d+ cores|, torch", result["machine"])[0]
        for peer, goal in result["goals"].items():
            if goal and result["columns"]:
                machines[machine] = None
                lines.setdefault((result["row"], peer), {})[machine] = format_figure_and_goal(result, peer, goal)
    header = ["row", "beside", *machines]
    body = [[f"`{row}`", peer, *(cells.get(name, "") for name in machines)] for (row, peer), cells in lines.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, ["---"] * len(header), *body])


def format_figure_and_goal(result: Figures, peer: str, goal: str) -> str:
    """The median with the default allocator, and its goal: a ratio must be at least, seconds at most that."""
    measured = next(iter(result["columns"].values()))
    if OURS in measured["rates"]:
        figure = measured["ratios"][peer]["median"]
        text, met = f"{format_number(figure)}x of {goal}", figure >= float(goal.rstrip("x"))
    else:
        figure = 1 / measured["rates"][peer]["median"]
        text, met = f"{format_number(figure)} s of {goal}", figure <= float(goal.split()[0])
    return f"**{text}**" if met else text
