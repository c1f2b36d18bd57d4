"""Wording that messages share: the nearest valid name, the first few of a list, counts."""

import difflib
from collections.abc import Iterable, Sequence


def nearest(word: str, allowed: Iterable[str]) -> str:
    """' (did you mean 'x'?)' for the closest name, preferring the same first word; '' if none is close.

    Closer than any other are a path that ends with the word ('attention.window' for 'window'), and a name of which it
    is the initials ('learning_rate' for 'lr').
    """
    names, word = {name.lower(): name for name in allowed}, word.lower()
    meant = next((name for name in names if name.endswith(f".{word}") or initials(name) == word), None)
    if meant is not None and word not in names:
        return f" (did you mean '{names[meant]}'?)"
    close, first = difflib.get_close_matches(word, names, n=20, cutoff=0.6), word.split("-")[0]
    alike = {name: difflib.SequenceMatcher(None, name, word).ratio() for name in close}
    found = max(close, key=lambda name: (alike[name] + 0.1 * (name.split("-")[0] == first), name), default=None)
    return "" if found is None else f" (did you mean '{names[found]}'?)"


def initials(name: str) -> str | None:
    """The first letters of a name's words; None for a name of one word."""
    words = name.split("_")
    return "".join(word[:1] for word in words) if len(words) > 1 else None


def first_few(parts: Sequence[str], between: str = ", ", most: int = 5) -> str:
    """Join the first `most` parts, and say how many more there are."""
    return between.join([*parts[:most], *([f"and {len(parts) - most} more"] if len(parts) > most else [])])


def counted(number: int, what: str) -> str:
    """A number with its noun, such as '1 file' or '1,200 files'."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def refuse_unknown(
    word: str, allowed: Iterable[str], what: str, place: str, hint: str = "", deeper: Iterable[str] = ()
) -> None:
    """Raise a ValueError that names the nearest allowed word, unless `word` is allowed; `hint` ends the message.

    Args:
        deeper: longer paths that may be meant, such as 'attention.window'.
    """
    if word not in (allowed := list(allowed)):
        close, listed = nearest(word, [*allowed, *deeper]), ", ".join(allowed) if allowed else "none"
        raise ValueError(f"{place}: unknown {what} '{word}'{close}; allowed: {listed}{hint}")
