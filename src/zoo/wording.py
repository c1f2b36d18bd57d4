"""Words that messages share: the nearest right answer, the first of many, how many there are."""

import difflib
from collections.abc import Iterable, Sequence


def nearest(word: str, allowed: Iterable[str]) -> str:
    """' (did you mean 'x'?)' for the closest name, sooner one with the same first word; '' where none is close.

    A path that ends with the word ('attention.window' for 'window') is closer than any other name.
    """
    names, word = {name.lower(): name for name in allowed}, word.lower()
    ends = next((name for name in names if name.endswith(f".{word}")), None)
    if ends is not None and word not in names:
        return f" (did you mean '{names[ends]}'?)"
    close, first = difflib.get_close_matches(word, names, n=20, cutoff=0.6), word.split("-")[0]
    alike = {name: difflib.SequenceMatcher(None, name, word).ratio() for name in close}
    found = max(close, key=lambda name: (alike[name] + 0.1 * (name.split("-")[0] == first), name), default=None)
    return "" if found is None else f" (did you mean '{names[found]}'?)"


def first_few(parts: Sequence[str], between: str = ", ", most: int = 5) -> str:
    """The first few of what may be many, as a message lists them, and how many more there are."""
    return between.join([*parts[:most], *([f"and {len(parts) - most} more"] if len(parts) > most else [])])


def counted(number: int, what: str) -> str:
    """So many of something, such as '1 file' or '1,200 files'."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def refuse_unknown(
    word: str, allowed: Iterable[str], what: str, place: str, hint: str = "", deeper: Iterable[str] = ()
) -> None:
    """Raise a ValueError, with the nearest right answer, where `word` is not one of `allowed`; a hint ends it.

    Args:
        deeper: longer paths that may be meant, such as 'attention.window'.
    """
    if word not in (allowed := list(allowed)):
        close, listed = nearest(word, [*allowed, *deeper]), ", ".join(allowed) if allowed else "none"
        raise ValueError(f"{place}: unknown {what} '{word}'{close}; allowed: {listed}{hint}")
