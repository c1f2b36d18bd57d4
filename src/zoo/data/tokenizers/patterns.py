r"""What a tokenizer's file does to texts: what could take forever on some, or make them far longer, is refused.

The library backtracks, so the time that a pattern takes cannot be read off its repeats: `.?` forty times takes 2^40
steps as soon as something behind it fails. Instead of estimating, zoo takes alternatives of three shapes, in which
nothing that can fail stands behind a repeat, and a match is never tried in a second way. The patterns of published
tokenizers have these shapes, but for the few that are listed. A process that is ended after some time would take any
pattern, but every text of every later run would have to pass through it.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

LONGEST = 2000  # characters of a pattern; published ones have up to 1,200
MOST_GROWTH = 1000  # times that all steps together may lengthen a text; of published files at most about ten
# A backslash with the letters that take one character: `\b` and its like can fail without taking any. Where an
# alternative could begin like another, `re` would try both, so each of these begins in a way of its own.
ESCAPE = r"\\[pP]\{\^?\w+\}|\\x\{\w+\}|\\x(?!\{\w+\})|\\[sSdDwWnrtfvu]|\\\W"
CLASS = rf"\[(?!\^?\])(?:{ESCAPE}|\[(?!\^?\])[^\]\\\[]+\]|[^\]\\\[])+\]"
ATOM = rf"(?:{ESCAPE}|{CLASS}|[^\\\[\](){{}}|*+?^$])"
OFTEN = r"(?:[?*+][?+]?|\{\d{1,3}(?:,\d{0,3})?\})"
ALTERNATIVES = (
    rf"(?:{ATOM}\?[?+]?)?{ATOM}*(?:{ATOM}{OFTEN})?(?:{ATOM}[?*][?+]?)*",  # behind the first repeat, all may be absent
    rf"{ATOM}*\((?:\?i?:)?(?:{ATOM}|\|)+\)",  # letters, then one of several words
    rf"{ATOM}+\(\?=(?:{ATOM})+\)",  # letters before certain letters
)
FIRST, UPPER, LOWER = r"[^\r\n\p{L}\p{N}]?", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
TOGETHER = (  # alternatives of which the later ones take at once what the first walks back over
    *(r"\s*[\r\n]+|\s+(?!\S)|\s+", r"\s*[\r\n]|\s+(?!\S)|\s+"),  # Llama 3, GPT-4
    *(f"{FIRST}{UPPER}*{LOWER}+{end}|{FIRST}{UPPER}+{LOWER}*{end}" for end in (ENDING, "")),  # GPT-4o, Mistral
)
QUADRATIC = (r"\s+$", r"^▁+$", r" +▁")  # in one run of spaces or markers; DeepSeek, Whisper, Marian
LINES = [each.replace(r"\r\n", "\r\n") for each in TOGETHER]  # as some files write them (DeepSeek)
# those of several alternatives first: none of them is taken for its first one alone
ONE = "|".join([*map(re.escape, (*TOGETHER, *LINES, r"\s+(?!\S)")), *ALTERNATIVES])
UP_TO_BAR = re.compile(rf"(?:{ONE})(?=\||\Z)")


def check_patterns(spec: Any, place: str) -> None:
    """Refuse a tokenizer's map with a pattern that could take forever, or with steps that make texts far longer.

    Raises:
        ValueError: there is such a pattern, and the message shows it; or there are such steps.
    """
    for pattern in (each["Regex"] for each in maps(spec) if "Regex" in each):
        if not isinstance(pattern, str) or len(pattern) > LONGEST or not is_allowed(pattern):
            raise ValueError(
                f"{place}: the pattern {pattern!r:.80} may take forever on some texts; allowed: patterns of "
                "published tokenizers, and alternatives in which nothing after a repeat can fail"
            )
    longer = math.prod(map(growth, maps(spec)))
    if longer > MOST_GROWTH:
        raise ValueError(f"{place}: its steps may make a text {longer:.0e} times as long; allowed: {MOST_GROWTH} times")


def is_allowed(pattern: str) -> bool:
    """Whether a pattern is one of a few, or has nothing but allowed alternatives.

    Each is read for itself: of all at once, `re` would try every way to read one with every way to read the others.
    """
    if pattern in QUADRATIC:
        return True
    at = 0
    while found := UP_TO_BAR.match(pattern, at):
        if found.end() == len(pattern):
            return True
        at = found.end() + 1
    return False


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
