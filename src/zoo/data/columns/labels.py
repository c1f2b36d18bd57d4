"""Reads labels as the data writes them: as a class, several classes or a number."""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from zoo.data.columns.class_names import (
    nearest_name,
    refuse_alike,
    refuse_other_forms,
    sort_names,
    warn_of_alike,
    warn_of_joined,
)
from zoo.data.columns.values import (
    LARGEST,
    are_names,
    is_absent,
    is_letter,
    is_number,
    number_of,
    position_of,
    split_names,
    written_names,
)
from zoo.wording import first_few

SHOWN = 20  # names in a message
DIFFERENT = 1 << 18  # the maximum number of different values in a label column
HIDDEN = -1  # what test splits often have in place of labels; can also be a number to learn
HOW_SEVERAL = "list them in the task under 'labels: {several: […]}'"
MANY = 100  # classes; if there are more, and all are numbers, the column probably holds something else
logger = logging.getLogger(__name__)


class LabelReader(ABC):
    """Reads the labels of one split.

    Args:
        names: of the classes; empty if labels are not classes.
        values: the distinct values that occur in the split.
        names_given: whether the names come from a task or a checkpoint, not from train itself, where every value is a
            name.

    Class attributes:
        unknown: the label of a row whose label is withheld, as in a test split.
        named: whether labels are classes with names.
        coded: whether there are few distinct values, which the store codes; otherwise it stores a number per row.
        multilabel: whether a row may have any number of classes.
    """

    unknown: ClassVar[Any]
    named: ClassVar[bool] = True
    coded: ClassVar[bool] = True
    multilabel: ClassVar[bool] = False

    def __init__(self, names: Sequence[str], values: Iterable[Any], names_given: bool) -> None:
        self.names = tuple(names)

    @staticmethod
    def entries(value: Any) -> Sequence[Any]:
        """The parts of a row's label that are read one by one."""
        return [value]

    @staticmethod
    def join(read: Sequence[Any]) -> Any:
        """Combine the labels of a row's entries into the row's label."""
        return read[0]

    @staticmethod
    def names_in(found: Iterable["Occurrence"], place: str) -> tuple[str, ...]:
        """The names of the classes, from the labels in train; empty if labels are not classes.

        Raises:
            ValueError: a label cannot be a name, or there are fewer than two classes.
        """
        return ()

    @abstractmethod
    def read(self, value: Any, where: Callable[[], str]) -> Any:
        """The label that a value stands for.

        Raises:
            ValueError: the value is not a label; the message says what is allowed.
        """

    @staticmethod
    def hides(value: Any) -> bool:
        """Whether a test split withholds the label by writing this value."""
        return is_absent(value)

    @classmethod
    def hidden(cls, values: Sequence[Any], names: Collection[str]) -> list[bool]:
        """For each distinct label of a test split, whether it withholds the label; the name of a class does not."""
        return [cls.hides(value) and (value is None or str(value) not in names) for value in values]

    @abstractmethod
    def report(self, read: Sequence[Any], place: str, train: bool) -> None:
        """Log what is worth knowing about the labels of a split."""


class Labels(LabelReader):
    """Classes: written by name or, in a split that uses none of the names, by position.

    Positions, counted from 0, are read only where none of the names occurs; names that are numbers are always names.
    Anything looser would take the class 1 of one table for the second class of another.
    """

    unknown: ClassVar[Any] = -1

    @staticmethod
    def names_in(found: Iterable["Occurrence"], place: str) -> tuple[str, ...]:
        """The distinct labels, sorted; as numbers if all are whole numbers."""
        names: dict[str, Callable[[], str]] = {}
        for value, where in found:
            if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
                raise ValueError(f"{where()}: a label must be a text or a whole number, got {value!r}")
            names.setdefault(str(value), where)
        refuse_alike(names, "list the 'labels' in the task")
        warn_of_alike(names, place)
        if len(names) < 2:
            raise ValueError(f"{place}: every row has the label '{min(names)}'; at least two classes are needed")
        if len(names) > MANY and all(map(is_number, names)):
            logger.warning("%s: the labels are %d different numbers; is each of them a class?", place, len(names))
        return sort_names(names)

    def __init__(self, names: Sequence[str], values: Iterable[Any], names_given: bool) -> None:
        super().__init__(names, values, names_given)
        written = {str(value) for value in values}
        self.by_position = names_given and not any(name in written or is_number(name) for name in self.names)
        spelled = range(len(self.names)) if self.by_position else self.names
        self.index = {str(word): index for index, word in enumerate(spelled)}

    def read(self, value: Any, where: Callable[[], str]) -> int:
        """The class of a label.

        Raises:
            ValueError: there is no such class; the message says which names are allowed.
        """
        written, is_name = str(value), isinstance(value, str | int) and not isinstance(value, bool)
        if not is_name or written not in self.index:
            meant = nearest_name(written, self.names) if is_name else " (a label must be a text or a whole number)"
            positions = f", or in all rows 0 to {len(self.names) - 1}" if self.by_position else ""
            named = not is_number(written) and all(map(is_number, self.names))
            remedy = "; if the numbers stand for names, list the names under 'labels'" if named else ""
            if written == str(HIDDEN):
                meant, remedy = "", "; only a test split may withhold a label like this, so leave the row out"
            allowed = f"{first_few(self.names, most=SHOWN)}{positions}{remedy}"
            raise ValueError(f"{where()}: unknown label {value!r}{meant}; allowed: {allowed}")
        return self.index[written]

    def report(self, read: Sequence[int], place: str, train: bool) -> None:
        """Log how labels were read, and which classes a model cannot learn."""
        found = set(read) - {-1}
        if self.by_position and found:
            spelled = first_few([f"{number} as {name}" for number, name in enumerate(self.names)], most=SHOWN)
            few = f" ({len(found)} of {len(self.names)} occur)" if len(found) < len(self.names) else ""
            logger.info("%s: its labels are numbers: zoo reads %s%s", place, spelled, few)
        if train:
            warn_of_unseen(self.names, found, place)


class MultiLabels(LabelReader):
    """Any number of classes per row: a list of names, or a text with commas between them; no class is a label, too."""

    unknown: ClassVar[Any] = (-1,)
    multilabel: ClassVar[bool] = True

    @staticmethod
    def entries(value: Any) -> Sequence[Any]:
        """Each name as a list of its own, so that the store codes names, not combinations; else the whole value."""
        if is_absent(value) or not are_names(names := written_names(value)):
            return [value]
        return [[name] for name in names]

    @staticmethod
    def join(read: Sequence[Any]) -> Any:
        return tuple(sorted({number for numbers in read for number in numbers}))

    @classmethod
    def hidden(cls, values: Sequence[Any], names: Collection[str]) -> list[bool]:
        """As for other labels, but an empty text means no class, unless every label of the split is withheld."""
        found = super().hidden(values, names)
        return found if all(found) else [hides and value != "" for hides, value in zip(found, values, strict=True)]

    @staticmethod
    def names_in(found: Iterable["Occurrence"], place: str) -> tuple[str, ...]:
        names: dict[str, Callable[[], str]] = {}
        for value, where in found:
            for name in split_names(value, where):
                names.setdefault(name, where)
        refuse_other_forms(names, HOW_SEVERAL)
        refuse_alike(names, HOW_SEVERAL)
        warn_of_joined(names)
        warn_of_alike(names, place)
        if len(names) < 2:
            raise ValueError(f"{place}: the labels name too few classes ({len(names)}); at least two are needed")
        return sort_names(names)

    def __init__(self, names: Sequence[str], values: Iterable[Any], names_given: bool) -> None:
        super().__init__(names, values, names_given)
        self.index = {name: number for number, name in enumerate(names)}

    def read(self, value: Any, where: Callable[[], str]) -> tuple[int, ...]:
        found = split_names(value, where)
        for name in found:
            if name not in self.index:
                allowed = first_few(self.names, most=SHOWN)
                raise ValueError(
                    f"{where()}: unknown label {name!r}{nearest_name(name, self.names)}; allowed: {allowed}"
                )
        return tuple(sorted({self.index[name] for name in found}))

    def report(self, read: Sequence[Any], place: str, train: bool) -> None:
        if train:
            warn_of_unseen(self.names, {number for numbers in read for number in numbers}, place)


class LabelNumbers(LabelReader):
    """One number per row."""

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
        elif known and min(known) == max(known) == HIDDEN:
            said = "%s: every row has the number %g; if it hides the labels, replace it by null or an empty text"
            logger.warning(said, place, HIDDEN)


class LabelPositions(LabelReader):
    """The right choice, by its number from 0 or, in all rows of a split, by its letter.

    Rows may have different numbers of choices.
    """

    unknown: ClassVar[Any] = -1
    named: ClassVar[bool] = False

    def __init__(self, names: Sequence[str], values: Iterable[Any], names_given: bool) -> None:
        super().__init__(names, values, names_given)
        self.has_letters = any(map(is_letter, values))  # then numbers are refused: they may be counted from 1

    def read(self, value: Any, where: Callable[[], str]) -> int:
        position = position_of(value)
        if position is None:
            allowed = "the number of the right choice, from 0, or its letter, from A"
            raise ValueError(f"{where()}: the label must be {allowed}; got {value!r:.80}")
        if self.has_letters and not is_letter(value):
            raise ValueError(f"{where()}: the label is {value!r}, but other rows have letters; write one or the other")
        return position

    def report(self, read: Sequence[Any], place: str, train: bool) -> None:
        """Log nothing: a position that is never right in train can still be predicted."""


READERS: dict[str, type[LabelReader]] = {"one": Labels, "several": MultiLabels, "number": LabelNumbers}


class Occurrence(NamedTuple):
    """A value in a label column, and a function that tells where it first occurs; calling it may read the file."""

    value: Any
    where: Callable[[], str]


def warn_of_unseen(names: Sequence[str], seen: Container[int], place: str) -> None:
    """Log the classes that no row of train has."""
    unseen = [name for number, name in enumerate(names) if number not in seen]
    if unseen:
        logger.warning(
            "%s: no row has the label %s, so a model cannot learn it here", place, first_few(unseen, most=SHOWN)
        )
