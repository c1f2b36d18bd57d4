"""The tables at the top of docs/benchmarks.md: how far every row is from its goals, on each machine."""

import re
from collections.abc import Iterable

from rows.figures import OURS, Figures, number

Lines = dict[tuple[str, str], dict[str, str]]  # by row and peer, what each machine reached


def overviews(results: Iterable[Figures]) -> str:
    """A table of the rows for CPUs, and one of those for GPUs."""
    results = list(results)
    apart = ([one for one in results if one["row"].startswith("gpu-") == gpu] for gpu in (False, True))
    return "\n\n".join(overview(some) for some in apart if some)


def overview(results: Iterable[Figures]) -> str:
    """A line for each row and peer, a column for each machine; goals that are met are bold."""
    machines: dict[str, None] = {}
    lines: Lines = {}
    for result in results:
        machine = re.split(r", \d+ cores|, torch", result["machine"])[0]
        for peer, goal in result["goals"].items():
            if goal and result["columns"]:
                machines[machine] = None
                lines.setdefault((result["row"], peer), {})[machine] = reached(result, peer, goal)
    head = ["row", "beside", *machines]
    body = [[f"`{row}`", peer, *(cells.get(name, "") for name in machines)] for (row, peer), cells in lines.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *body])


def reached(result: Figures, peer: str, goal: str) -> str:
    """The median as the allocator comes, and its goal: a ratio wants to be as large, seconds to be as few."""
    one = next(iter(result["columns"].values()))
    if OURS in one["rates"]:
        figure = one["ratios"][peer]["median"]
        text, met = f"{number(figure)}x of {goal}", figure >= float(goal.rstrip("x"))
    else:
        figure = 1 / one["rates"][peer]["median"]
        text, met = f"{number(figure)} s of {goal}", figure <= float(goal.split()[0])
    return f"**{text}**" if met else text
