"""The names of classes, where train's labels give them: their order, and what cannot be meant."""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from unicodedata import normalize

from zoo.data.columns.values import is_number, number_of
from zoo.wording import first_few, nearest

# names that come of a list, tuple or set that was written as text and split at its commas: its first or only part
LIST = re.compile(r"""\[ | [({]['"] | \(\)$ | set\(\)$ | (['"]).+\1$""", re.VERBOSE)
BINARY = {"0", "1", "0.0", "1.0", "false", "true"}  # what a vector with a number for each class holds
# soft hyphen, zero-width space, byte-order mark, and marks of direction, as Arabic and Hebrew texts have them
INVISIBLE = re.compile("[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
DIFFER = "differ only in white space, in invisible characters or in their Unicode form"
logger = logging.getLogger(__name__)


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names in order: as numbers if all are whole numbers."""
    named = list(names)
    if all(map(is_number, named)):
        return tuple(sorted(named, key=lambda name: (int(name), name)))  # 1 and 01 are two names
    return tuple(sorted(named))


def refuse_other_forms(names: Mapping[str, Callable[[], str]], how: str) -> None:
    """Raise a ValueError if the classes of a row are written in a form whose parts would be taken for names.

    Args:
        names: as in `refuse_alike`.
        how: how a task says that these are names, for the message.
    """
    for name, where in names.items():
        if LIST.match(name):
            found = f"the label begins with {name!r}, as if a list were written as text"
            form = "write the names with commas between them, or as a list in JSON lines or Parquet"
            raise ValueError(f"{where()}: {found}; {form}; if these are names, {how}")
    parts = {part.lower() for name in names for part in re.split(r"[\s;|]+", name)}
    if parts and parts <= BINARY:
        *_, where = names.values()
        found = f"the labels are only {' and '.join(sorted(parts))}, as in a vector with a number for each class"
        form = "name the classes of each row instead, or give each class a column of its own (columns.label)"
        raise ValueError(f"{where()}: {found}; {form}; if these are names of classes, {how}")


def refuse_alike(names: Mapping[str, Callable[[], str]], how: str) -> None:
    """Raise a ValueError if two names of classes look alike: if only white space, `INVISIBLE` or Unicode forms differ.

    Args:
        names: each with a function that tells where it first occurs.
        how: how a task keeps them apart, for the message.
    """
    first: dict[str, str] = {}
    for name, where in names.items():
        other = first.setdefault(as_seen(name), name)
        if other != name:
            raise ValueError(f"{where()}: the labels {other!r} and {name!r} {DIFFER}; write them alike, or {how}")


def as_seen(name: str) -> str:
    """What a reader sees of a name: equal for names that differ as `DIFFER` says."""
    return normalize("NFC", " ".join(INVISIBLE.sub("", name).split()))


def nearest_name(word: str, names: Sequence[str]) -> str:
    """As `nearest`, but of a name that looks like the word, how they differ: a reader sees no difference."""
    alike = [name for name in names if as_seen(name) == as_seen(word)]
    return f" (it and {alike[0]!r} {DIFFER})" if alike else nearest(word, names)


def warn_of_joined(names: Mapping[str, Callable[[], str]]) -> None:
    """Log the first name with a semicolon or a bar beside what other names hold, as lists of names are written, too.

    Args:
        names: as in `refuse_alike`.
    """
    joined = {name: {part.strip() for part in re.split("[;|]", name)} - {""} for name in names}
    holders = Counter(part for parts in joined.values() for part in parts)
    for name, where in names.items():
        if any(part != name and holders[part] > 1 for part in joined[name]):
            logger.warning("%s: the label %r is one class; write commas between the names of several", where(), name)
            break


def warn_of_alike(names: Iterable[str], place: str) -> None:
    """Log names of classes that differ only in case, or are one number, such as 1 and 1.0: they may be meant."""
    first: dict[str | float, str] = {}
    alike = []
    for name in names:
        number = number_of(name)
        other = first.setdefault(normalize("NFKC", name).casefold() if number is None else number, name)
        if other != name:
            alike.append(f"'{other}' and '{name}'")
    if alike:
        logger.warning(
            "%s: labels that differ in case or as 1 and 1.0 are different classes: %s", place, first_few(alike)
        )
