r"""What a tokenizer's file does to texts: what could take forever on some, or make them far longer, is refused.

The library backtracks, so the time that a pattern takes cannot be read off its repeats: `.?` forty times takes 2^40
steps as soon as something behind it fails. Instead of estimating, zoo takes patterns of one shape, in which nothing
that can fail stands behind a repeat, and a match is never tried in a second way. The patterns of published tokenizers
have that shape, but for the few in KNOWN. A process that is ended after some time would take any pattern, but every
text of every later run would have to pass through it.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

LONGEST = 2000  # characters of a pattern; published ones have up to 1,200
MOST_GROWTH = 1000  # times that all steps together may lengthen a text; of published files at most about ten
# quadratic in the length of one run of spaces or markers, and part of published tokenizers (DeepSeek, Whisper, Marian)
KNOWN = (r"\s+$", r"^▁+$", r" +▁")
# `\b` and its like are left out: they can fail behind a repeat without taking a character
ATOM = r"\\[pP]\{\^?\w+\}|\\x\{\w+\}|\\[sSdDwWnrtfvxu]|\\\W|\[\^?\]?(?:\\.|\[[^\]]*\]|[^\]\\\[])*\]|[^\\\[\](){}|*+?^$]"
ITEM = re.compile(
    rf"(?P<bar>\|)|(?P<ends>\(\?!\\S\)|\(\?=(?:{ATOM})+\))"
    rf"|(?P<atom>{ATOM}|(?P<group>\((?:\?i?:)?(?:{ATOM}|\|)+\)))"
    r"(?:(?P<often>[?*+])[?+]?|\{(?P<least>\d{1,3})(?P<comma>,)?(?P<most>\d{0,3})\})?",
    re.DOTALL,
)
OFTEN = {None: (1, 1.0), "?": (0, 1.0), "*": (0, math.inf), "+": (1, math.inf)}


class Repeat(NamedTuple):
    """A character, a class or a group of characters, and how often it may stand there."""

    atom: str
    least: int
    most: float

    @property
    def optional(self) -> bool:
        return (self.least, self.most) == (0, 1)


Branch = list[Repeat]


def check_patterns(spec: Any, place: str) -> None:
    """Refuse a tokenizer's map with a pattern that could take forever, or with steps that make texts far longer.

    Raises:
        ValueError: there is such a pattern, and the message shows it; or there are such steps.
    """
    for pattern in patterns(spec):
        if not isinstance(pattern, str) or len(pattern) > LONGEST or not (pattern in KNOWN or is_linear(pattern)):
            raise ValueError(
                f"{place}: the pattern {pattern!r:.80} may take forever on some texts; allowed are alternatives in "
                "which nothing that can fail stands behind a repeat, and patterns of published tokenizers"
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


def is_linear(pattern: str) -> bool:
    """Whether the time for a text grows with its length alone."""
    branches = parse(pattern)
    if branches is None:
        return False
    begun = [branch[has_choice(branch) :][:1] for branch in branches]
    for number, branch in enumerate(branches):
        rest = branch[has_choice(branch) :]
        if never_fails_late(rest):
            continue
        # `A*B+`, as in `\s*[\r\n]+`: a run of A without B is walked back once, if a later alternative takes all of it
        runs = len(rest) > 1 and (rest[0].least, rest[0].most) == (0, math.inf) and rest[1].least == 1
        taken = [Repeat(rest[0].atom, 1, math.inf)] in begun[number + 1 :]
        if not (runs and taken and never_fails_late(rest[1:])):
            return False
    return True


def has_choice(branch: Branch) -> bool:
    """Whether a branch begins with something optional: it is tried with that and without, so twice at most."""
    return bool(branch) and branch[0].optional


def never_fails_late(branch: Branch) -> bool:
    """Whether everything behind the first item that may stand there in several ways may also be absent."""
    several = next((i for i, item in enumerate(branch) if item.least != item.most), len(branch))
    return all(item.least == 0 for item in branch[several + 1 :])


def parse(pattern: str) -> list[Branch] | None:
    """The alternatives of a pattern; None where it has something else than repeated characters, classes and groups."""
    branches: list[Branch] = [[]]
    groups = [0]
    at = 0
    while at < len(pattern):
        match = ITEM.match(pattern, at)
        if match is None:
            return None
        at = match.end()
        if match["bar"]:
            branches.append([])
            groups.append(0)
        elif match["ends"]:  # a look ahead is the last item; one for letters needs a fixed number of them before it
            last = at == len(pattern) or pattern[at] == "|"
            fixed = all(item.least == item.most for item in branches[-1])
            if not last or not (fixed or (match["ends"] == r"(?!\S)" and branches[-1] == [(r"\s", 1, math.inf)])):
                return None
        else:
            least, most = OFTEN[match["often"]]
            if match["least"]:
                least = int(match["least"])
                most = least if not match["comma"] else float(match["most"] or "inf")
            branches[-1].append(Repeat(match["atom"], least, most))
            groups[-1] += bool(match["group"])
            # `(?:.|.)` again and again doubles the ways each time; repeated, it does so with every letter
            if groups[-1] > 1 or (match["group"] and most > 1):
                return None
    return branches
