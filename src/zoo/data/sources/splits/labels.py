"""The labels of the splits of a source: the names of the classes, and the number of each label."""

from collections.abc import Sequence
from functools import cache, cached_property, partial

from zoo.data.columns.labels import READERS, SHOWN, LabelPositions, LabelReader, Labels, Occurrence
from zoo.data.ids import CHOICES, LABEL, TAGS, Label
from zoo.data.sources.file_cache import remember
from zoo.data.sources.origin import TEST, TRAIN
from zoo.data.sources.splits.named_classes import NamedClasses
from zoo.data.sources.splits.numbering import distinct_labels, label_key, refuse_many
from zoo.data.sources.splits.parts import SplitParts
from zoo.wording import first_few

VERSION = 7  # increase it when other labels are found in the same sources


class SplitLabels:
    """The labels of the splits of a source.

    Args:
        names: of the classes, from the task or a checkpoint; None: those that the source declares, else the distinct
            values of train.
        kind: the kind of a row's label, `Task.label_kind`.
    """

    def __init__(self, parts: SplitParts, names: Sequence[str] | None, kind: str) -> None:
        self.parts, self.origin, self.names = parts, parts.origin, names
        self.label_reader = READERS[kind]
        self.found = cache(self.find)
        self.numbers = cache(self.find_numbers)

    @cached_property
    def given(self) -> Sequence[str] | None:
        """The names of the classes that the task lists, else those that the first split declares; None: neither."""
        if self.names is not None:
            return self.names
        named = (part for part in self.parts.of(self.origin.splits()[0]) if isinstance(part, NamedClasses))
        declared = list(dict.fromkeys(name for part in named for name in part.names))
        return declared if len(declared) > 1 else None

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes; empty if labels are not read, or are not classes."""
        if not self.are_read:
            return ()
        if self.given is not None:
            return tuple(self.given)
        if TRAIN not in self.origin.splits() or not self.reader_of(TRAIN).named:
            return ()
        found = self.found(TRAIN)
        return self.reader_of(TRAIN).names_in(found, self.origin.place(TRAIN)) if found else ()

    @property
    def exist(self) -> bool:
        """Whether rows have labels: classes or numbers."""
        source = self.origin.splits()[0]
        return bool(self.classes) or (self.are_read and not self.reader_of(source).named)

    @property
    def are_read(self) -> bool:
        """Whether an objective reads labels or tags, or the task names their column."""
        return not {LABEL, TAGS}.isdisjoint(self.parts.columns.inputs)

    def reader_of(self, source: str) -> type[LabelReader]:
        """The label reader of a split; with choices, a label is the right one's position."""
        return LabelPositions if CHOICES in self.parts.chosen(source) else self.label_reader

    def find(self, source: str) -> list[Occurrence]:
        """Each different label in a split of the source, and where it first occurs; empty if no such column exists."""
        first: dict[tuple[str, str], Occurrence] = {}
        name, reader = TAGS if self.parts.tags(source) else LABEL, self.reader_of(source)
        for part in self.parts.of(source):
            chosen = self.parts.choose(source, part)
            if name in chosen:
                columns = {each: chosen[each] for each in (name, CHOICES) if each in chosen}
                key = ["labels", VERSION, name, part.digest, *columns.values(), reader.multilabel]
                found = remember(key, partial(distinct_labels, part, columns, reader.entries))
                for value, row, entry in found:
                    first.setdefault(label_key(value), Occurrence(value, partial(part.line, row, entry)))
                refuse_many(len(first), partial(self.origin.place, source))
        return list(first.values())

    def find_numbers(self, source: str) -> dict[tuple[str, str], Label] | None:
        """The number of each label in a split of the source, by `label_key`; the key of None is for withheld labels.

        Returns:
            None if the labels of the rows are numbers already.

        Raises:
            ValueError: a label is not one of the names, or the split lacks the column.
        """
        reader, place = self.reader_of(source), self.origin.place(source)
        if not reader.coded and (source == TEST or LABEL in self.parts.chosen(source)):
            return None
        found = self.found(source)
        unknown = {label_key(None): reader.unknown}
        if not found:
            if self.exist and source != TEST and not self.parts.tags(source):
                found_columns = ", ".join(self.parts.of(source)[0].columns)
                lacks = f"no column is read as 'label'; found: {found_columns}; name it under 'columns'"
                raise ValueError(f"{place}: {'it has no rows' if LABEL in self.parts.chosen(source) else lacks}")
            return unknown
        if not self.exist:
            raise ValueError(f"{place}: list the 'labels' in the task: there is no train split to collect them from")
        values = [one.value for one in found]
        hidden = reader.hidden(values, self.classes) if source == TEST else [False] * len(found)
        written = [value for value, hides in zip(values, hidden, strict=True) if not hides]
        labels = reader(self.classes, written, self.given is not None)
        if written:
            self.refuse_other_order(source, labels)
        read = [reader.unknown if h else labels.read(*one) for one, h in zip(found, hidden, strict=True)]
        labels.report(read, place, train=source == TRAIN)
        return {**unknown, **dict(zip(map(label_key, values), read, strict=True))}

    def refuse_other_order(self, source: str, labels: LabelReader) -> None:
        """Raise a ValueError if positions are read, but the first split declares other names for the numbers."""
        if not isinstance(labels, Labels) or not labels.by_position:
            return
        for part in self.parts.of(self.origin.splits()[0]):
            if isinstance(part, NamedClasses) and self.classes[: len(part.names)] != tuple(part.names):
                names = first_few([f"{number} as {name}" for number, name in enumerate(part.names)], most=SHOWN)
                said = f"its labels are numbers without names, and {part.place} names {names}"
                raise ValueError(f"{self.origin.place(source)}: {said}; list the 'labels' in that order")
