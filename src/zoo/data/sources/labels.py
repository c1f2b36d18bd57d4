"""Classes: names <-> what the data holds."""

from collections.abc import Iterable, Sequence
from typing import Any

from zoo.registry import nearest

SHOWN = 20


class Labels:
    """The names of the classes; the data holds a name or its index."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        numbered = {str(index): index for index in range(len(self.names))}
        self.index = {**numbered, **{name: index for index, name in enumerate(self.names)}}

    def read(self, value: Any, place: str) -> int:
        """The class that a value of the data stands for.

        Raises:
            ValueError: none; with the allowed names.
        """
        written = str(value)
        if isinstance(value, bool | float) or value is None or written not in self.index:
            more = ", …" if len(self.names) > SHOWN else ""
            allowed = f"{', '.join(self.names[:SHOWN])}{more}, or 0 to {len(self.names) - 1}"
            raise ValueError(f"{place}: unknown label {value!r}{nearest(written, self.names)}; allowed: {allowed}")
        return self.index[written]


def absent(value: Any) -> bool:
    """Whether a test split writes this where it keeps the answer to itself."""
    return value is None or value in ("", -1, "-1")


def distinct(values: Iterable[Any], place: str) -> tuple[str, ...]:
    """The different labels that occur, sorted: as numbers where all are whole numbers.

    Raises:
        ValueError: a value is not a text or a whole number, or all are the same.
    """
    found: set[str] = set()
    for row, value in enumerate(values, 1):
        if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
            raise ValueError(f"{place}: row {row}: a label must be a text or a whole number, got {value!r}")
        found.add(str(value))
    if len(found) < 2:
        raise ValueError(f"{place}: every row has the label '{min(found)}'; at least two classes are needed")
    if all(name.lstrip("-").isdecimal() for name in found):
        return tuple(sorted(found, key=int))
    return tuple(sorted(found))
