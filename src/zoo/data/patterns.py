"""Regular expressions of a tokenizer's file: those that could take forever on some text are refused."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

LONGEST = 2000  # characters of a pattern; published ones have up to 600
MOST_REPEATS = 2  # open-ended repeats in one alternative: the time grows with that power of the text's length
# what a pattern consists of, as far as its repeats go
PIECE = re.compile(
    r"""(?P<back>\\[1-9]|\\[kg][<{'])|\\[pP]\{[^}]*\}|\\.
    |\[\^?\]?(?:\\.|\[[^\]]*\]|[^\]\\\[])*\]
    |(?P<open>[*+][+?]?|\{\d*,\}[+?]?)|(?P<bounded>\{\d+(?:,\d+)?\})|.""",
    re.VERBOSE | re.DOTALL,
)


def check_patterns(spec: Any, place: str) -> None:
    """Refuse a tokenizer's map with a pattern that could take forever.

    Raises:
        ValueError: there is such a pattern; the message shows it.
    """
    for pattern in patterns(spec):
        if not isinstance(pattern, str) or len(pattern) > LONGEST or repeats(pattern) > MOST_REPEATS:
            raise ValueError(
                f"{place}: the pattern {pattern!r:.80} may take forever on some texts; allowed are patterns without "
                f"repeated groups and with at most {MOST_REPEATS} open repeats in each alternative"
            )


def patterns(spec: Any) -> Iterator[Any]:
    """Every regular expression in a map, however deep."""
    rest = [spec]
    while rest:
        value = rest.pop()
        if isinstance(value, Mapping):
            if "Regex" in value:
                yield value["Regex"]
            # a vocabulary is large, and holds no patterns
            rest += [below for key, below in value.items() if key not in ("vocab", "merges", "added_tokens")]
        elif isinstance(value, list):
            rest += value


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
