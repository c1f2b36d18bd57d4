"""Statistics of the sides' turns: rates, medians, ratios of consecutive turns, and the tables of docs/benchmarks.md."""

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

OURS, MACHINE = "zoo", "machine"
Figures = dict[str, Any]


class Side(Protocol):
    """Something that can take a turn: a process, or a stand-in in a test."""

    def run_turn(self) -> Figures: ...


def alternate_turns(sides: Mapping[str, Side], repeats: int) -> dict[str, list[Figures]]:
    """Give the sides turns in rotation, `repeats` each, so that a slowdown of the machine affects all of them."""
    turns: dict[str, list[Figures]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            turns[name].append(side.run_turn())
    return turns


def summary(values: Iterable[float]) -> Figures:
    """Median, minimum and maximum."""
    values = list(values)
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def rates(turns: Sequence[Figures]) -> list[float]:
    """Units per second of each turn."""
    return [turn["units"] / turn["seconds"] for turn in turns]


def ratios(turns: Mapping[str, Sequence[Figures]]) -> dict[str, Figures]:
    """zoo's speed relative to each peer, from pairs of turns of the same rotation."""
    zoo_rates = rates(turns.get(OURS, []))
    peer_rates = {name: rates(side) for name, side in turns.items() if zoo_rates and name not in (OURS, MACHINE)}
    return {name: summary(a / b for a, b in zip(zoo_rates, peer, strict=True)) for name, peer in peer_rates.items()}


def shares(turns: Mapping[str, Sequence[Figures]], cost: float | None) -> dict[str, float]:
    """The share of the machine's peak rate that each side reaches: the median over rotations.

    Args:
        cost: floating point operations, or bytes read, per unit of work; None: unknown.
    """
    if cost is None or MACHINE not in turns:
        return {}
    peak_rates = rates(turns[MACHINE])
    side_rates = {name: rates(side) for name, side in turns.items() if name != MACHINE}
    return {
        name: statistics.median(cost * r / m for r, m in zip(side, peak_rates, strict=True))
        for name, side in side_rates.items()
    }


def memory_overhead(facts: Figures) -> int | None:
    """Peak memory of training minus 16 bytes per parameter (float32 weights, gradients and Adam's two moments).

    On a CPU this includes the loaded libraries. None if the side recorded no parameters.
    """
    if "parameters" not in facts:
        return None
    peak: int = facts["gpu"] or facts["peak"]
    return peak - 16 * int(facts["parameters"])


def summarize_comparison(turns: Mapping[str, Sequence[Figures]], facts: Mapping[str, Figures]) -> Figures:
    """All figures of one comparison.

    Args:
        facts: side -> what it recorded; zoo's `cost` is that of `shares`.
    """
    memory = {name: overhead for name, one in facts.items() if (overhead := memory_overhead(one)) is not None}
    timed = {name: side for name, side in turns.items() if "processor" in side[0]}
    peers = [name for name in memory if OURS in memory and name != OURS]
    return {
        "rates": {name: summary(rates(side)) for name, side in turns.items()},
        "units": {name: statistics.mean(turn["units"] for turn in side) for name, side in turns.items()},
        "processor": {name: summary(turn["processor"] for turn in side) for name, side in timed.items()},
        "ratios": ratios(turns),
        "shares": shares(turns, facts.get(OURS, {}).get("cost")),
        "memory": memory,
        "memory_ratios": {name: memory[OURS] / memory[name] for name in peers},
        "facts": dict(facts),
    }


def shares_by_kind(shares: Mapping[str, float], kinds: Mapping[str, str], other: str) -> dict[str, str]:
    """Kind of kernel or operator -> its share of the time, in percent.

    Args:
        shares: name of a kernel or operator -> share of the time.
        kinds: kind -> regular expression for names; the first match counts.
        other: the kind of the remaining time.
    """
    found = dict.fromkeys(kinds, 0.0)
    for name, share in shares.items():
        kind = next((kind for kind, pattern in kinds.items() if re.search(pattern, name, re.IGNORECASE)), None)
        if kind is not None:
            found[kind] += share
    found[other] = 1 - sum(found.values())
    return {kind: f"{share:.0%}" for kind, share in found.items() if share >= 0.005}


def format_number(value: float) -> str:
    """A number with three significant digits, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def format_spread(values: Figures) -> str:
    """The median of a `summary`, with minimum and maximum in parentheses."""
    median, least, most = (format_number(values[key]) for key in ("median", "least", "most"))
    return f"{median} ({least} to {most})"


def format_seconds(rates: Figures) -> str:
    """Seconds per unit, from a `summary` of rates."""
    return f"{format_spread(summary(1 / rates[key] for key in rates))} s"


def row_cells(result: Figures, allocator: str) -> list[list[str]]:
    """The table lines of one row: one per peer; without peers, one per side."""
    measured = result["columns"][allocator]
    if OURS not in measured["rates"]:  # the units are commands: show wall-clock and CPU seconds
        wall = {name: format_seconds(rates) for name, rates in measured["rates"].items()}
        cpu = {name: f"processor {format_spread(measured['processor'][name])} s" for name in wall}
        return [[name, allocator, wall[name], cpu[name], "", result["goals"][name], "", ""] for name in wall]
    lines, share = [], measured["shares"].get(OURS)
    format_rate = format_seconds if result["unit"].startswith("seconds") else format_spread
    for peer, ratio in measured["ratios"].items():
        sides = [format_rate(measured["rates"][name]) for name in (OURS, peer)]
        memory = measured["memory_ratios"].get(peer)
        last = ["" if share is None else f"{share:.0%}", "" if memory is None else f"{memory:.2f}x"]
        lines.append([peer, allocator, *sides, f"{format_spread(ratio)}x", result["goals"][peer], *last])
    return lines


def markdown_tables(results: Iterable[Figures]) -> str:
    """The tables of docs/benchmarks.md: one per machine, with its name above and further facts below."""
    lines: dict[str, list[str]] = {}  # by machine
    facts: dict[str, list[str]] = {}
    for result in results:
        label, machine = f"`{result['row']}`: {result['unit']}", result["machine"]
        cells = [[label, *line] for allocator in result["columns"] for line in row_cells(result, allocator)]
        lines.setdefault(machine, []).extend(f"| {' | '.join(line)} |" for line in cells)
        notes = [f"`{result['row']}`, {key}: {format_fact(value)}." for key, value in result.get("told", {}).items()]
        facts.setdefault(machine, []).extend(notes)
    header = "| row | peer | allocator | ours | peer's | ratio | goal | share | memory |\n|" + "---|" * 9
    parts = ["\n".join([machine, "", header, *lines[machine], "", *facts[machine]]).strip() for machine in lines]
    return "\n\n".join(parts)


def format_fact(value: Any) -> str:
    """A figure, or several with their names, as text."""
    return ", ".join(f"{name} {figure}" for name, figure in value.items()) if isinstance(value, dict) else str(value)
