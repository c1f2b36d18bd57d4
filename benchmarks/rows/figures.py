"""Statistics of the sides' times: rates, medians, ratios of consecutive turns, and the table of docs/benchmarks.md."""

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

OURS, MACHINE = "zoo", "machine"
Figures = dict[str, Any]


class Asked(Protocol):
    """Something that can take a turn: a process, or a stand-in in a test."""

    def turn(self) -> Figures: ...


def alternate(sides: Mapping[str, Asked], repeats: int) -> dict[str, list[Figures]]:
    """Give the sides turns in rotation, `repeats` each, so that a slowdown of the machine affects all of them."""
    found: dict[str, list[Figures]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            found[name].append(side.turn())
    return found


def summary(values: Iterable[float]) -> Figures:
    """Median, minimum and maximum."""
    values = list(values)
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def rates(turns: Sequence[Figures]) -> list[float]:
    """Units per second of each turn."""
    return [turn["units"] / turn["seconds"] for turn in turns]


def ratios(turns: Mapping[str, Sequence[Figures]]) -> dict[str, Figures]:
    """zoo's speed relative to each peer, from pairs of turns of the same rotation."""
    ours = rates(turns.get(OURS, []))
    peers = {name: rates(of_peer) for name, of_peer in turns.items() if ours and name not in (OURS, MACHINE)}
    return {name: summary(a / b for a, b in zip(ours, peer, strict=True)) for name, peer in peers.items()}


def shares(turns: Mapping[str, Sequence[Figures]], cost: float | None) -> dict[str, float]:
    """The share of the machine's peak rate that each side reaches: the median over rotations.

    Args:
        cost: floating point operations, or bytes read, per unit of work; None: unknown.
    """
    if cost is None or MACHINE not in turns:
        return {}
    most = rates(turns[MACHINE])
    sides = {name: rates(of_side) for name, of_side in turns.items() if name != MACHINE}
    return {
        name: statistics.median(cost * r / m for r, m in zip(side, most, strict=True)) for name, side in sides.items()
    }


def beyond(facts: Figures) -> int | None:
    """Peak memory of training minus 16 bytes per parameter (float32 weights, gradients and Adam's two moments).

    On a CPU this includes the loaded libraries. None if the side noted no parameters.
    """
    if "parameters" not in facts:
        return None
    peak: int = facts["gpu"] or facts["peak"]
    return peak - 16 * int(facts["parameters"])


def judge(turns: Mapping[str, Sequence[Figures]], facts: Mapping[str, Figures]) -> Figures:
    """All figures of one comparison.

    Args:
        facts: side -> what it noted; zoo's `cost` is that of `shares`.
    """
    memory = {name: more for name, noted in facts.items() if (more := beyond(noted)) is not None}
    return {
        "rates": {name: summary(rates(of_side)) for name, of_side in turns.items()},
        "units": {name: statistics.mean(turn["units"] for turn in of_side) for name, of_side in turns.items()},
        "processor": {n: summary(t["processor"] for t in of) for n, of in turns.items() if "processor" in of[0]},
        "ratios": ratios(turns),
        "shares": shares(turns, facts.get(OURS, {}).get("cost")),
        "memory": memory,
        "memory_ratios": {
            name: memory[OURS] / more for name, more in memory.items() if OURS in memory and name != OURS
        },
        "facts": dict(facts),
    }


def by_kind(shares: Mapping[str, float], kinds: Mapping[str, str], rest: str) -> dict[str, str]:
    """Kind of kernel or operator -> its share of the time, in percent.

    Args:
        shares: name of a kernel or operator -> share of the time.
        kinds: kind -> regular expression for names; the first match counts.
        rest: the kind of the remaining time.
    """
    found = dict.fromkeys(kinds, 0.0)
    for name, share in shares.items():
        kind = next((kind for kind, pattern in kinds.items() if re.search(pattern, name, re.IGNORECASE)), None)
        if kind is not None:
            found[kind] += share
    found[rest] = 1 - sum(found.values())
    return {kind: f"{share:.0%}" for kind, share in found.items() if share >= 0.005}


def number(value: float) -> str:
    """A number with three significant digits, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def spread(of: Figures) -> str:
    """The median, with minimum and maximum in parentheses."""
    return f"{number(of['median'])} ({number(of['least'])} to {number(of['most'])})"


def times(of: Figures) -> str:
    """Seconds per unit, from a `summary` of rates."""
    return f"{spread(summary(1 / of[key] for key in of))} s"


def cells(result: Figures, column: str) -> list[list[str]]:
    """The table lines of one row: one per peer; without peers, one per side."""
    one = result["columns"][column]
    if OURS not in one["rates"]:  # the units are commands: show wall-clock and CPU seconds
        busy = one["processor"]
        both = {name: [times(of), f"processor {spread(busy[name])} s"] for name, of in one["rates"].items()}
        return [[name, column, *two, "", result["goals"][name], "", ""] for name, two in both.items()]
    found, share, of_time = [], one["shares"].get(OURS), result["unit"].startswith("seconds")
    for peer, ratio in one["ratios"].items():
        sides = [times(one["rates"][name]) if of_time else spread(one["rates"][name]) for name in (OURS, peer)]
        memory = one["memory_ratios"].get(peer)
        last = ["" if share is None else f"{share:.0%}", "" if memory is None else f"{memory:.2f}x"]
        found.append([peer, column, *sides, f"{spread(ratio)}x", result["goals"][peer], *last])
    return found


def table(results: Iterable[Figures]) -> str:
    """The tables of docs/benchmarks.md: one per machine, with its name above and further facts below."""
    parts: dict[str, list[str]] = {}
    told: dict[str, list[str]] = {}
    for result in results:
        about = [f"`{result['row']}`: {result['unit']}"]
        lines = [about + rest for column in result["columns"] for rest in cells(result, column)]
        parts.setdefault(result["machine"], []).extend(f"| {' | '.join(line)} |" for line in lines)
        said = [f"`{result['row']}`, {key}: {in_words(value)}." for key, value in result.get("told", {}).items()]
        told.setdefault(result["machine"], []).extend(said)
    head = "| row | peer | allocator | ours | peer's | ratio | goal | share | memory |\n|" + "---|" * 9
    groups = ["\n".join([machine, "", head, *lines, "", *told[machine]]).strip() for machine, lines in parts.items()]
    return "\n\n".join(groups)


def in_words(value: Any) -> str:
    """A figure, or several with their names, as text."""
    return ", ".join(f"{name} {number}" for name, number in value.items()) if isinstance(value, dict) else str(value)
