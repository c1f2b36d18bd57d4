"""What a tokenizer's file does to texts: what could take forever on some, or make them far longer, is refused."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

LONGEST = 2000  # characters of a pattern; published ones have up to 600
MOST_GROWTH = 1000  # times that all steps together may lengthen a text; of published files at most about ten
MOST_REPEATS = 2  # open-ended repeats in one alternative: the time grows with that power of the text's length
# what a pattern consists of, as far as its repeats go
PIECE = re.compile(
    r"""(?P<back>\\[1-9]|\\[kg][<{'])|\\[pP]\{[^}]*\}|\\.
    |\[\^?\]?(?:\\.|\[[^\]]*\]|[^\]\\\[])*\]
    |(?P<open>[*+][+?]?|\{\d*,\}[+?]?)|(?P<bounded>\{\d+(?:,\d+)?\})|.""",
    re.VERBOSE | re.DOTALL,
)


def check_patterns(spec: Any, place: str) -> None:
    """Refuse a tokenizer's map with a pattern that could take forever, or with steps that make texts far longer.

    Raises:
        ValueError: there is such a pattern, and the message shows it; or there are such steps.
    """
    for pattern in patterns(spec):
        if not isinstance(pattern, str) or len(pattern) > LONGEST or repeats(pattern) > MOST_REPEATS:
            raise ValueError(
                f"{place}: the pattern {pattern!r:.80} may take forever on some texts; allowed are patterns without "
                f"repeated groups and with at most {MOST_REPEATS} open repeats in each alternative"
            )
    longer = math.prod(map(growth, maps(spec)))
    if longer > MOST_GROWTH:
        raise ValueError(
            f"{place}: its steps may make a text {longer:.0e} times as long; allowed is {MOST_GROWTH} times"
        )


def patterns(spec: Any) -> Iterator[Any]:
    """Every regular expression in a map, however deep."""
    return (each["Regex"] for each in maps(spec) if "Regex" in each)


def maps(spec: Any) -> Iterator[Mapping[str, Any]]:
    """Every map in a map, however deep."""
    rest = [spec]
    while rest:
        value = rest.pop()
        if isinstance(value, Mapping):
            yield value
            # a vocabulary is large, and holds no patterns
            rest += [below for key, below in value.items() if key not in ("vocab", "merges", "added_tokens")]
        elif isinstance(value, list):
            rest += value


def growth(step: Mapping[str, Any]) -> float:
    """How many times as long a step makes a text at most: by what it writes for a letter, before a text, around it."""
    pattern = step.get("pattern")
    replaced = str(pattern.get("String", "")) if isinstance(pattern, Mapping) else ""
    content = str(step.get("content")) if step.get("type") == "Replace" else ""
    lists = [found for name in ("single", "pair", "ids") if isinstance(found := step.get(name), list)]
    return float(max([1, len(content) / max(1, len(replaced)), len(str(step.get("prepend", ""))), *map(len, lists)]))


def repeats(pattern: str) -> int:
    """The most open-ended repeats in one alternative; a repeated group or a reference back is beyond every limit."""
    most = count = depth = 0
    before = ""
    for match in PIECE.finditer(pattern):
        kind, piece = match.lastgroup, match.group()
        repeated = kind == "open" or (kind == "bounded" and not piece.endswith(("{1}", "{0,1}")))
        if kind == "back" or (repeated and before == ")"):
            return LONGEST
        count += kind == "open"
        most = max(most, count)
        depth += (piece == "(") - (piece == ")")
        if piece == "|" and depth == 0:
            count = 0
        before = piece
    return most
