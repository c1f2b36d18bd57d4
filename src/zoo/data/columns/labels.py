"""Labels: a class, several classes or a number <-> what the data holds."""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from zoo.data.columns.values import (
    LARGEST,
    absent,
    are_names,
    is_letter,
    is_number,
    number_of,
    position_of,
    split_names,
    written_names,
)
from zoo.wording import first_few, nearest

SHOWN = 20
DIFFERENT = 1 << 18  # values that a column of labels may hold
MANY = 100  # classes; more of them, all numbers, are rather a column of something else
logger = logging.getLogger(__name__)


class LabelReader(ABC):
    """Reads the labels of one split.

    Args:
        names: of the classes; none where labels are no classes.
        values: the different ones that occur in the split.
        given: whether a task or a checkpoint gives the names; those that train itself shows are names everywhere.

    Class attributes:
        unknown: what stands for a label that a test split keeps to itself.
        named: whether labels are classes with names.
        coded: whether few different values occur, which a store keeps once each; else each row keeps its own number.
        several: whether a row may have any number of them.
    """

    unknown: ClassVar[Any]
    named: ClassVar[bool] = True
    coded: ClassVar[bool] = True
    several: ClassVar[bool] = False

    def __init__(self, names: Sequence[str], values: Iterable[Any], given: bool) -> None:
        self.names = tuple(names)

    @staticmethod
    def entries(value: Any) -> Sequence[Any]:
        """The parts of a row's value that are read one by one."""
        return [value]

    @staticmethod
    def join(read: Sequence[Any]) -> Any:
        """A row's label from what its entries stand for."""
        return read[0]

    @staticmethod
    def names_in(found: Iterable["Occurrence"], place: str) -> tuple[str, ...]:
        """The names of the classes that the labels of train show; none where they are no classes.

        Raises:
            ValueError: a label is no name, or there are fewer than two classes.
        """
        return ()

    @abstractmethod
    def read(self, value: Any, where: Callable[[], str]) -> Any:
        """What a value of the data stands for.

        Raises:
            ValueError: it stands for nothing; the message says what is allowed.
        """

    @staticmethod
    def hides(value: Any) -> bool:
        """Whether a test split writes this where it keeps the label to itself."""
        return absent(value)

    @classmethod
    def hidden(cls, values: Sequence[Any], names: Collection[str]) -> list[bool]:
        """Which of the different labels of a test split keep the label to itself: those that name a class do not."""
        return [cls.hides(value) and (value is None or str(value) not in names) for value in values]

    @abstractmethod
    def report(self, read: Sequence[Any], place: str, train: bool) -> None:
        """Say in the log what is worth knowing of the labels of a split."""


class Labels(LabelReader):
    """The names of the classes, and whether one split of the data writes their positions instead.

    Positions, counted from 0, are read only where none of the names occurs; names that are numbers are always names.
    Anything looser would take the class 1 of one table for the second class of another.
    """

    unknown: ClassVar[Any] = -1

    @staticmethod
    def names_in(found: Iterable["Occurrence"], place: str) -> tuple[str, ...]:
        """The different labels that occur, sorted: as numbers where all are whole numbers."""
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
            return tuple(sorted(names, key=lambda name: (int(name), name)))  # 1 and 01 are two names
        return tuple(sorted(names))

    def __init__(self, names: Sequence[str], values: Iterable[Any], given: bool) -> None:
        super().__init__(names, values, given)
        written = {str(value) for value in values}
        self.by_position = given and not any(name in written or is_number(name) for name in self.names)
        spelled = range(len(self.names)) if self.by_position else self.names
        self.index = {str(word): index for index, word in enumerate(spelled)}

    def read(self, value: Any, where: Callable[[], str]) -> int:
        """The class that a value of the data stands for.

        Raises:
            ValueError: it stands for none; the message says which names are allowed.
        """
        written = str(value)
        if isinstance(value, bool | float) or value is None or written not in self.index:
            positions = f", or in all rows 0 to {len(self.names) - 1}" if self.by_position else ""
            allowed = f"{first_few(self.names, most=SHOWN)}{positions}"
            raise ValueError(f"{where()}: unknown label {value!r}{nearest(written, self.names)}; allowed: {allowed}")
        return self.index[written]

    def report(self, read: Sequence[int], place: str, train: bool) -> None:
        """Say in the log how labels were read, and which class a model cannot learn."""
        found = set(read) - {-1}
        if self.by_position and found:
            spelled = first_few([f"{number} as {name}" for number, name in enumerate(self.names)], most=SHOWN)
            few = f" ({len(found)} of {len(self.names)} occur)" if len(found) < len(self.names) else ""
            logger.info("%s: its labels are numbers: zoo reads %s%s", place, spelled, few)
        if train:
            warn_of_unseen(self.names, found, place)


class LabelLists(LabelReader):
    """Several classes a row: a list of names, or a text with commas between them; none of them is a label, too."""

    unknown: ClassVar[Any] = (-1,)
    several: ClassVar[bool] = True

    @staticmethod
    def entries(value: Any) -> Sequence[Any]:
        """Each name in a list of its own, since few names combine in very many ways; anything else stays whole."""
        if absent(value) or not are_names(names := written_names(value)):
            return [value]
        return [[name] for name in names]

    @staticmethod
    def join(read: Sequence[Any]) -> Any:
        return tuple(sorted({number for numbers in read for number in numbers}))

    @classmethod
    def hidden(cls, values: Sequence[Any], names: Collection[str]) -> list[bool]:
        """As of other labels; but an empty text is a row of no class, unless the split says nothing of any row."""
        found = super().hidden(values, names)
        return found if all(found) else [hides and value != "" for hides, value in zip(found, values, strict=True)]

    @staticmethod
    def names_in(found: Iterable["Occurrence"], place: str) -> tuple[str, ...]:
        names = sorted({name for value, where in found for name in split_names(value, where)})
        if len(names) < 2:
            raise ValueError(f"{place}: the labels name too few classes ({len(names)}); at least two are needed")
        return tuple(names)

    def __init__(self, names: Sequence[str], values: Iterable[Any], given: bool) -> None:
        super().__init__(names, values, given)
        self.index = {name: number for number, name in enumerate(names)}

    def read(self, value: Any, where: Callable[[], str]) -> tuple[int, ...]:
        found = split_names(value, where)
        for name in found:
            if name not in self.index:
                allowed = first_few(self.names, most=SHOWN)
                raise ValueError(f"{where()}: unknown label {name!r}{nearest(name, self.names)}; allowed: {allowed}")
        return tuple(sorted({self.index[name] for name in found}))

    def report(self, read: Sequence[Any], place: str, train: bool) -> None:
        if train:
            warn_of_unseen(self.names, {number for numbers in read for number in numbers}, place)


class LabelNumbers(LabelReader):
    """A number a row."""

    unknown: ClassVar[Any] = math.nan
    named: ClassVar[bool] = False
    coded: ClassVar[bool] = False

    @staticmethod
    def hides(value: Any) -> bool:
        return value is None or value == ""

    def read(self, value: Any, where: Callable[[], str]) -> float:
        number = number_of(value)
        if number is None:
            allowed = f"a finite number, at most {LARGEST:.1e} in size (task.labels: number)"
            raise ValueError(f"{where()}: the label must be {allowed}, got {value!r:.80}")
        return number

    def report(self, read: Sequence[Any], place: str, train: bool) -> None:
        known = [number for number in read if math.isfinite(number)]
        if train and known and min(known) == max(known):
            logger.warning("%s: every row has the number %g, so there is nothing to learn", place, known[0])


class LabelPositions(LabelReader):
    """The number of the right choice, from 0, or in all rows of a split its letter; each row says how many it has."""

    unknown: ClassVar[Any] = -1
    named: ClassVar[bool] = False

    def __init__(self, names: Sequence[str], values: Iterable[Any], given: bool) -> None:
        super().__init__(names, values, given)
        self.has_letters = any(map(is_letter, values))  # a number beside them may be counted from 1

    def read(self, value: Any, where: Callable[[], str]) -> int:
        position = position_of(value)
        if position is None:
            allowed = "the number of the right choice, from 0, or its letter, from A"
            raise ValueError(f"{where()}: the label must be {allowed}; got {value!r:.80}")
        if self.has_letters and not is_letter(value):
            raise ValueError(f"{where()}: the label is {value!r}, but other rows have letters; write one or the other")
        return position

    def report(self, read: Sequence[Any], place: str, train: bool) -> None:
        """Nothing: a position that never is the right one can be chosen all the same."""


READERS: dict[str, type[LabelReader]] = {"one": Labels, "several": LabelLists, "number": LabelNumbers}


class Occurrence(NamedTuple):
    """A value that a column of labels holds, and what tells where it was met first: the file may be read for that."""

    value: Any
    where: Callable[[], str]


def warn_of_unseen(names: Sequence[str], seen: Container[int], place: str) -> None:
    """Say in the log which classes no row of train has."""
    unseen = [name for number, name in enumerate(names) if number not in seen]
    if unseen:
        logger.warning("%s: no row has the label %s, so it cannot be learned", place, first_few(unseen, most=SHOWN))
