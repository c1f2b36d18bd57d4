r"""Refuses tokenizer files with patterns that may take unbounded time, or with steps that lengthen texts too much.

The library's regex engine backtracks, so a pattern's time cannot be estimated from its repeats: forty `.?` take 2^40
steps as soon as something after them fails. Instead of estimating, zoo allows alternatives of three shapes, in which
nothing after a repeat can fail, so that a match is never tried in a second way. The patterns of published tokenizers
have these shapes, except for a few, which are listed. A timeout would allow any pattern, but every text of every later
run would have to be encoded under it.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

LONGEST = 2000  # characters of a pattern; published ones have up to 1,200
MOST_GROWTH = 1000  # the factor by which all steps together may lengthen a text; at most about ten in published files
# Escapes that match exactly one character; `\b` and similar can fail without consuming one. Each alternative begins
# differently, since `re` would try all that begin alike.
ESCAPE = r"\\[pP]\{\^?\w+\}|\\x\{\w+\}|\\x(?!\{\w+\})|\\[sSdDwWnrtfvu]|\\\W"
CLASS = rf"\[(?!\^?\])(?:{ESCAPE}|\[(?!\^?\])[^\]\\\[]+\]|[^\]\\\[])+\]"
ATOM = rf"(?:{ESCAPE}|{CLASS}|[^\\\[\](){{}}|*+?^$])"
OFTEN = r"(?:[?*+][?+]?|\{\d{1,3}(?:,\d{0,3})?\})"
ALTERNATIVES = (
    rf"(?:{ATOM}\?[?+]?)?{ATOM}*(?:{ATOM}{OFTEN})?(?:{ATOM}[?*][?+]?)*",  # after the first repeat, all is optional
    rf"{ATOM}*\((?:\?i?:)?(?:{ATOM}|\|)+\)",  # letters, then one of several words
    rf"{ATOM}+\(\?=(?:{ATOM})+\)",  # letters before certain letters
)
FIRST, UPPER, LOWER = r"[^\r\n\p{L}\p{N}]?", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
TOGETHER = (  # alternatives whose later ones match at once what the first backtracks over
    *(r"\s*[\r\n]+|\s+(?!\S)|\s+", r"\s*[\r\n]|\s+(?!\S)|\s+"),  # Llama 3, GPT-4
    *(f"{FIRST}{UPPER}*{LOWER}+{end}|{FIRST}{UPPER}+{LOWER}*{end}" for end in (ENDING, "")),  # GPT-4o, Mistral
)
QUADRATIC = (r"\s+$", r"^▁+$", r" +▁")  # quadratic in a run of spaces or markers only; DeepSeek, Whisper, Marian
LINES = [each.replace(r"\r\n", "\r\n") for each in TOGETHER]  # as some files write them (DeepSeek)
# patterns of several alternatives first, so that not just the first alternative of one is matched
ONE = "|".join([*map(re.escape, (*TOGETHER, *LINES, r"\s+(?!\S)")), *ALTERNATIVES])
UP_TO_BAR = re.compile(rf"(?:{ONE})(?=\||\Z)")


def check_patterns(spec: Any, place: str) -> None:
    """Refuse a parsed tokenizer.json whose patterns may take unbounded time, or whose steps lengthen texts too much.

    Raises:
        ValueError: there is such a pattern, which the message shows, or there are such steps.
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
    """Whether a pattern is one of `QUADRATIC`, or has only allowed alternatives.

    Alternatives are matched one by one: on the whole pattern, `re` would try all combinations of ways to match them.
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
    """Every map in a parsed file, at any depth."""
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
    """The maximum factor by which a step lengthens a text: by replacing characters, or by adding text around it."""
    pattern = step.get("pattern")
    replaced = str(pattern.get("String", "")) if isinstance(pattern, Mapping) else ""
    content = str(step.get("content")) if step.get("type") == "Replace" else ""
    lists = [found for name in ("single", "pair", "ids") if isinstance(found := step.get(name), list)]
    return float(max([1, len(content) / max(1, len(replaced)), len(str(step.get("prepend", ""))), *map(len, lists)]))
