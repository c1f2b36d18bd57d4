"""The tables at the top of docs/benchmarks.md: every row's figures and goals, on each machine."""

import re
from collections.abc import Iterable

from rows.figures import OURS, Figures, number

Lines = dict[tuple[str, str], dict[str, str]]  # (row, peer) -> machine -> its figure


def overviews(results: Iterable[Figures]) -> str:
    """A table of the CPU rows, and one of the GPU rows."""
    results = list(results)
    apart = ([one for one in results if one["row"].startswith("gpu-") == gpu] for gpu in (False, True))
    return "\n\n".join(overview(some) for some in apart if some)


def overview(results: Iterable[Figures]) -> str:
    """A table with a line per row and peer and a column per machine; goals that are met are bold."""
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
    """The median with the default allocator, and its goal: a ratio must be at least, seconds at most that."""
    one = next(iter(result["columns"].values()))
    if OURS in one["rates"]:
        figure = one["ratios"][peer]["median"]
        text, met = f"{number(figure)}x of {goal}", figure >= float(goal.rstrip("x"))
    else:
        figure = 1 / one["rates"][peer]["median"]
        text, met = f"{number(figure)} s of {goal}", figure <= float(goal.split()[0])
    return f"**{text}**" if met else text
