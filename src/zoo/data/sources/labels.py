"""Classes: names <-> what the data holds."""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from zoo.registry import first_few, nearest

SHOWN = 20
MANY = 100  # classes; more of them, all numbers, are rather a column of something else
logger = logging.getLogger(__name__)


class Labels:
    """The names of the classes, and whether one split of the data writes their positions instead.

    Positions, counted from 0, are read only where none of the names occurs; names that are numbers are always names.
    Anything looser would take the class 1 of one table for the second class of another.

    Args:
        written: the labels that occur in the split.
        given: whether a task or a checkpoint gives the names; those that train itself shows are names everywhere.
    """

    def __init__(self, names: Sequence[str], written: Collection[str], given: bool = True) -> None:
        self.names = tuple(names)
        self.by_position = given and not any(name in written or is_number(name) for name in self.names)
        spelled = range(len(self.names)) if self.by_position else self.names
        self.index = {str(word): index for index, word in enumerate(spelled)}

    def read(self, value: Any, where: Callable[[], str]) -> int:
        """The class that a value of the data stands for.

        Raises:
            ValueError: none; with the allowed names.
        """
        written = str(value)
        if isinstance(value, bool | float) or value is None or written not in self.index:
            positions = f", or in all rows 0 to {len(self.names) - 1}" if self.by_position else ""
            allowed = f"{first_few(self.names, most=SHOWN)}{positions}"
            raise ValueError(f"{where()}: unknown label {value!r}{nearest(written, self.names)}; allowed: {allowed}")
        return self.index[written]

    def report(self, numbers: Collection[int], place: str, train: bool) -> None:
        """Say in the log how labels were read, and which class a model cannot learn."""
        found = set(numbers) - {-1}
        if self.by_position and found:
            said = "%s: none of the labels %s occurs; 0 to %d are read as their positions (%d of %d occur)"
            logger.info(
                said, place, first_few(self.names, most=SHOWN), len(self.names) - 1, len(found), len(self.names)
            )
        unseen = [name for index, name in enumerate(self.names) if index not in found]
        if train and unseen:
            logger.warning("%s: no row has the label %s, so it cannot be learned", place, first_few(unseen, most=SHOWN))


def is_number(name: str) -> bool:
    return name.lstrip("-").isdecimal()


def absent(value: Any) -> bool:
    """Whether a test split writes this where it keeps the answer to itself."""
    return value is None or value in ("", -1, "-1")


class Occurrence(NamedTuple):
    """A value that a column of labels holds, and what tells where it was met first: the file may be read for that."""

    value: Any
    where: Callable[[], str]


def distinct(found: Iterable[Occurrence], place: str) -> tuple[str, ...]:
    """The different labels that occur, sorted: as numbers where all are whole numbers.

    Raises:
        ValueError: a value is not a text or a whole number, or all are the same.
    """
    names: set[str] = set()
    for value, where in found:
        if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
            raise ValueError(f"{where()}: a label must be a text or a whole number, got {value!r}")
        names.add(str(value))
    if len(names) < 2:
        raise ValueError(f"{place}: every row has the label '{min(names)}'; at least two classes are needed")
    if all(map(is_number, names)):
        if len(names) > MANY:
            logger.warning("%s: the labels are %d different numbers; is each of them a class?", place, len(names))
        return tuple(sorted(names, key=int))
    return tuple(sorted(names))
