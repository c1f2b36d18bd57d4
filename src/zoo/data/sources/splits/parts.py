"""The parts of each split of a source, and the column that each input is read from."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from zoo.data.columns.columns import Column, Columns
from zoo.data.ids import CHOICES, LABEL, TAGS, WORDS
from zoo.data.sources.origin import TEST, Origin
from zoo.data.sources.part import SourcePart
from zoo.data.sources.splits.named_classes import NamedClasses

HIDDEN = (LABEL, TAGS)  # inputs that a test split may withhold
logger = logging.getLogger(__name__)


class SplitParts:
    """The parts of each split, with classes by name if their files declare the names of the numbers that they hold.

    Args:
        names: of the classes, from the task or a checkpoint; None: it names none.
        classes: whether labels are classes, not numbers.
    """

    def __init__(self, origin: Origin, columns: Columns, names: Sequence[str] | None, classes: bool) -> None:
        self.origin, self.columns, self.names, self.classes = origin, columns, names, classes
        self.stored = cache(origin.parts)  # once: listing files may log which it leaves out
        self.of, self.declared = cache(self.find), cache(self.find_declared)

    def find(self, source: str) -> Sequence[SourcePart]:
        """The parts of a split of the source, at least one.

        Raises:
            ValueError: a column is missing.
        """
        parts = [self.by_name(source, part) for part in self.stored(source)]
        if self.columns.forms and source != self.origin.splits()[0]:
            self.warn_of_unread(source, parts[0])
        return parts

    def warn_of_unread(self, source: str, part: SourcePart) -> None:
        """Log the first column that a split could be read by, but the first split lacks, such as that of a pair."""
        read, own = (columns.inputs for columns in (self.columns_of(source, part), self.columns.of_form(part.columns)))
        for name in [name for name in own if name in part.columns and name not in read][:1]:
            said = "%s: column '%s' is not read, because %s lacks it; to say so, name those to read under 'columns'"
            logger.warning(said, part.place, name, self.of(self.origin.splits()[0])[0].place)

    def by_name(self, source: str, part: SourcePart) -> SourcePart:
        """The part with classes by name, unless the task gives every class another name: it then names positions."""
        column = self.class_column(source, part)
        if column is None:
            return part
        names = part.classes.get(column) or self.declared(source)
        listed = self.names or ()
        # names such as 0, 1, 2 are the numbers themselves
        by_number = set(names).isdisjoint(listed) or list(listed) == [str(number) for number in range(len(listed))]
        return part if not names or (listed and by_number) else NamedClasses(part, column, names)

    def class_column(self, source: str, part: SourcePart) -> str | None:
        """The column that holds the classes of a part; None if there is none, or several, or labels are no classes."""
        if not self.classes or {LABEL, TAGS}.isdisjoint(self.columns.inputs):
            return None
        chosen = self.choose_alone(source, part)
        column = chosen.get(LABEL, chosen.get(TAGS))
        return column if isinstance(column, str) and CHOICES not in chosen else None

    def find_declared(self, source: str) -> Sequence[str]:
        """The names that the first part which declares any has; other parts of the split may hold the same numbers."""
        for part in self.stored(source):
            column = self.class_column(source, part)
            if column is not None and (names := part.classes.get(column)):
                return names
        return ()

    def choose(self, source: str, part: SourcePart) -> dict[str, Column]:
        """Input -> column, for one part.

        Raises:
            ValueError: a column is missing, or the part has other columns than the first one.
        """
        first = self.of(source)[0]
        chosen, wanted = self.choose_alone(source, part), self.choose_alone(source, first)
        if (set(chosen) ^ set(wanted)).difference(optional_in(source)):
            said = f"it has {', '.join(chosen)}, but {first.place} has {', '.join(wanted)}"
            raise ValueError(f"{part.place}: {said}; name those to read under 'columns'")
        return chosen

    def choose_alone(self, source: str, part: SourcePart) -> dict[str, Column]:
        """As `choose`, whatever columns the first part has."""
        return self.columns_of(source, part).choose(part.columns, part.place, optional_in(source))

    def columns_of(self, source: str, part: SourcePart) -> Columns:
        """The columns of the form of a part's rows; the first split's columns decide the form of all splits."""
        if not self.columns.forms:
            return self.columns
        if source == (first := self.origin.splits()[0]):
            return self.columns.of_form(part.columns)
        return replace(self.columns.of_form(self.of(first)[0].columns), forms=())

    def chosen(self, source: str) -> dict[str, Column]:
        """Input -> column of a split, from its first part; as `choose`."""
        return self.choose(source, self.of(source)[0])

    def tags(self, source: str) -> bool:
        """Whether the labels of a split are the tags of its words."""
        chosen = self.chosen(source)
        return WORDS in chosen and LABEL not in chosen


def optional_in(source: str) -> tuple[str, ...]:
    """The inputs that a split may lack."""
    return HIDDEN if source == TEST else ()
