"""Reads the splits of one source: labels by name, and a validation split held out of train if the source has none."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache, cached_property, partial
from typing import Any

from zoo.data.columns.columns import Column, Columns
from zoo.data.columns.labels import READERS, LabelPositions, LabelReader, Labels, Occurrence
from zoo.data.ids import CHOICES, LABEL, PICTURE, TAGS, WORDS, Label
from zoo.data.sources.checking import ONE_TEXT, AssignedRow, checked_rows, expand_texts, has_text, hold_out
from zoo.data.sources.file_cache import remember
from zoo.data.sources.filtering import Filtering
from zoo.data.sources.image_files import digest_image_files
from zoo.data.sources.numbering import distinct_labels, label_key, number_labels, refuse_many, storable_rows
from zoo.data.sources.origin import TEST, TRAIN, VALIDATION, Origin
from zoo.data.sources.part import SourcePart
from zoo.data.sources.repeated.duplicates import ComparedPart
from zoo.wording import counted

HIDDEN = (LABEL, TAGS)  # inputs that a test split may withhold
VERSION = 7  # increase it when the same sources are read differently


class SplitReader:
    """Reads the splits of one source.

    Args:
        validation_share: fraction of train that becomes validation, if the source has no such split.
        names: of the classes; None: the distinct values of train.
        kind: the kind of a row's label, `Task.label_kind`.
        filtering: drops rows of train.
    """

    def __init__(
        self,
        origin: Origin,
        columns: Columns,
        validation_share: float,
        names: list[str] | None,
        kind: str,
        filtering: Filtering,
    ) -> None:
        self.origin, self.columns, self.filtering = origin, columns, filtering
        self.validation_share, self.names = validation_share, names
        self.kind, self.label_reader = kind, READERS[kind]
        self.holds_out = TRAIN in origin.splits() and VALIDATION not in origin.splits()
        self.parts = cache(origin.parts)
        self.found_labels = cache(self.find_labels)
        self.numbers = cache(self.find_numbers)
        self.image_digest = cache(self.find_image_digest)

    def splits(self) -> list[str]:
        """The available splits; if there is a train split, validation is among them."""
        return [*self.origin.splits(), *([VALIDATION] if self.holds_out else [])]

    def source(self, split: str) -> str:
        """The split of the source that a split's rows are read from."""
        return split if split in self.origin.splits() else TRAIN

    def splits_in(self, source: str) -> tuple[str, ...]:
        """The splits that a split of the source is divided into."""
        return (TRAIN, VALIDATION) if self.holds_out and source == TRAIN else (source,)

    def choose(self, source: str, part: SourcePart) -> dict[str, Column]:
        """Input -> column, for one part.

        Raises:
            ValueError: a column is missing, or the part has other columns than the first one.
        """
        first, optional = self.parts(source)[0], HIDDEN if source == TEST else ()
        chosen, wanted = (self.columns_of(source, p).choose(p.columns, p.place, optional) for p in (part, first))
        if (set(chosen) ^ set(wanted)).difference(optional):
            said = f"it has {', '.join(chosen)}, but {first.place} has {', '.join(wanted)}"
            raise ValueError(f"{part.place}: {said}; name those to read under 'columns'")
        return chosen

    def columns_of(self, source: str, part: SourcePart) -> Columns:
        """The columns of the form of a part's rows; the first split's columns decide the form of all splits."""
        if not self.columns.forms:
            return self.columns
        if source == (first := self.origin.splits()[0]):
            return self.columns.of_form(part.columns)
        return replace(self.columns.of_form(self.parts(first)[0].columns), forms=())

    def chosen(self, source: str) -> dict[str, Column]:
        """Input -> column of a split, from its first part; as `choose`."""
        return self.choose(source, self.parts(source)[0])

    def inputs(self, source: str) -> list[str]:
        """The inputs of a split, including those that a test split withholds."""
        found = list(self.chosen(source))
        if source != TEST or LABEL in found or TAGS in found:
            return found
        if WORDS in found:
            return [*found, TAGS]
        return [*found, LABEL] if self.labeled else found

    def fingerprint(self, split: str, named: bool = True) -> str:
        """A hash of the sources' digests and of everything that determines what is read from them.

        Args:
            named: False: as if the task did not name the classes.
        """
        source = self.source(split)
        parts = [
            [
                part.digest,
                self.choose(source, part),
                *self.filtering.key(source, part),
                *self.image_digest(source, part),
            ]
            for part in self.parts(source)
        ]
        names = self.names if named else None
        decided = json.dumps([VERSION, split, parts, names, self.kind, self.validation_share], sort_keys=True)
        return hashlib.sha256(decided.encode()).hexdigest()

    def rows(self, source: str, part: SourcePart, threshold: float) -> Iterator[AssignedRow]:
        """Yield the rows of a part of the source, each with its split.

        Args:
            threshold: rows whose hash is at most this are held out.

        Raises:
            ValueError: a row is invalid.
        """
        assigned = self.filtering.apply(self.assigned_rows(source, part, threshold), source, part)
        return expand_texts(assigned, part.place)

    def assigned_rows(self, source: str, part: SourcePart, threshold: float) -> Iterator[AssignedRow]:
        """As `rows`, before rows are dropped and lists of texts are expanded."""
        unread = self.columns_of(source, part).unread(part.columns)
        chosen = self.choose(source, part)
        rows = checked_rows(part, chosen, source == TEST, unread)
        if LABEL in self.inputs(source):
            if LABEL not in chosen:
                rows = ({**row, LABEL: None} for row in rows)
            coded = self.reader_of(source).coded
            rows = storable_rows(rows, part) if coded else self.read_numbers(rows, source, part)
        if self.holds_out and source == TRAIN:
            return hold_out(part, rows, self.validation_share, threshold, len(self.parts(source)) == 1)
        return (AssignedRow(source, number, row) for number, row in enumerate(rows, 1))

    def find_image_digest(self, source: str, part: SourcePart) -> list[str]:
        """As `digest_image_files`; empty if a part has no images."""
        column = self.choose(source, part).get(PICTURE)
        return digest_image_files(part, column) if isinstance(column, str) else []

    def held_out_by(self, source: str, part: SourcePart) -> list[str]:
        """The digest of a part's image files if their bytes decide which rows are held out."""
        return self.image_digest(source, part) if self.holds_out and source == TRAIN else []

    def compared(self) -> list[ComparedPart]:
        """The parts of all splits, for the search for duplicates; held-out rows are compared whatever their length."""
        found = []
        for source in self.origin.splits():
            threshold = self.threshold_of(source)
            for part in self.parts(source):
                decided = [source, part.digest, self.choose(source, part), len(self.parts(source)) == 1]
                decided += self.held_out_by(source, part)
                rule = asdict(replace(self.filtering.rule, deduplicate=False))
                rows = partial(self.assigned_rows, source, part, threshold)
                key = [*decided, threshold, self.validation_share, rule]
                found.append(ComparedPart(part, key, rows, self.filtering.rule.takes))
        return found

    @cached_property
    def holdout_threshold(self) -> float:
        """Rows of train whose hash is at most this are held out; at least one row is, however small the source."""
        read = [[p.digest, self.choose(TRAIN, p), *self.held_out_by(TRAIN, p)] for p in self.parts(TRAIN)]
        key = [VERSION, read, self.validation_share]
        return float(remember(["border of whole rows", *key], self.find_threshold))

    def threshold_of(self, source: str) -> float:
        """The threshold of a split of the source; an arbitrary number if nothing is held out of it."""
        return self.holdout_threshold if self.holds_out and source == TRAIN else self.validation_share

    def find_threshold(self) -> float:
        """The validation share, or the smallest hash of a row with texts if that is larger; stops once it is known.

        Raises:
            ValueError: every row would be held out.
        """
        for every in (True, False):  # the second time since a column that no form reads may be blank in all rows
            least, most, count = 1.0, 0.0, 0
            for part in self.parts(TRAIN):
                for assigned in self.assigned_rows(TRAIN, part, self.validation_share):
                    count += 1
                    if has_text(assigned, every):
                        least, most = min(least, assigned.at), max(most, assigned.at)
                    if least <= self.validation_share < most or assigned.at == ONE_TEXT:
                        return self.validation_share
            if most > max(self.validation_share, least):
                return max(self.validation_share, least)
        few = f"too few different {'images' if PICTURE in self.inputs(TRAIN) else 'rows'} in {counted(count, 'row')}"
        raise ValueError(f"{self.origin.place(TRAIN)}: {few} to hold some out for validation")

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes; empty if labels are not read, or are not classes."""
        if not self.reads_labels:
            return ()
        if self.names is not None:
            return tuple(self.names)
        if TRAIN not in self.origin.splits() or not self.reader_of(TRAIN).named:
            return ()
        found = self.found_labels(TRAIN)
        return self.reader_of(TRAIN).names_in(found, self.origin.place(TRAIN)) if found else ()

    @property
    def labeled(self) -> bool:
        """Whether rows have labels: classes or numbers."""
        source = self.origin.splits()[0]
        return bool(self.labels) or (self.reads_labels and not self.reader_of(source).named)

    @property
    def reads_labels(self) -> bool:
        """Whether an objective reads labels or tags, or the task names their column."""
        return not {LABEL, TAGS}.isdisjoint(self.columns.inputs)

    def reader_of(self, source: str) -> type[LabelReader]:
        """The label reader of a split: tags of words are classes; with choices, a label is the right one's position."""
        if self.tags(source):
            return Labels
        return LabelPositions if CHOICES in self.chosen(source) else self.label_reader

    def tags(self, source: str) -> bool:
        """Whether the labels of a split are the tags of its words."""
        chosen = self.chosen(source)
        return WORDS in chosen and LABEL not in chosen

    def find_labels(self, source: str) -> list[Occurrence]:
        """Each different label in a split of the source, and where it first occurs; empty if no such column exists."""
        first: dict[tuple[str, str], Occurrence] = {}
        name, reader = TAGS if self.tags(source) else LABEL, self.reader_of(source)
        for part in self.parts(source):
            chosen = self.choose(source, part)
            if name in chosen:
                columns = {each: chosen[each] for each in (name, CHOICES) if each in chosen}
                key = ["labels", VERSION, name, part.digest, *columns.values(), reader.multilabel]
                found = remember(key, partial(distinct_labels, part, columns, reader.entries))
                for value, row, entry in found:
                    first.setdefault(label_key(value), Occurrence(value, partial(part.line, row, entry)))
                refuse_many(len(first), partial(self.origin.place, source))
        return list(first.values())

    def read_numbers(self, rows: Iterator[dict[str, Any]], source: str, part: SourcePart) -> Iterator[dict[str, Any]]:
        """Yield rows whose labels are numbers, with each label read as a number.

        Raises:
            ValueError: a label is not a number.
        """
        reader = self.reader_of(source)
        labels = reader((), (), names_given=False)
        for number, row in enumerate(rows, 1):
            hidden = source == TEST and reader.hides(row[LABEL])
            label = reader.unknown if hidden else labels.read(row[LABEL], partial(part.line, number))
            yield {**row, LABEL: label}

    def find_numbers(self, source: str) -> dict[tuple[str, str], Label] | None:
        """The number of each label in a split of the source, by `label_key`; the key of None is for withheld labels.

        Returns:
            None if the labels of the rows are numbers already.

        Raises:
            ValueError: a label is not one of the names, or the split lacks the column.
        """
        reader, place = self.reader_of(source), self.origin.place(source)
        if not reader.coded and (source == TEST or LABEL in self.chosen(source)):
            return None
        found = self.found_labels(source)
        unknown = {label_key(None): reader.unknown}
        if not found:
            if self.labeled and source != TEST and not self.tags(source):
                found_columns = ", ".join(self.parts(source)[0].columns)
                lacks = f"no column is read as 'label'; found: {found_columns}; name it under 'columns'"
                raise ValueError(f"{place}: {'it has no rows' if LABEL in self.chosen(source) else lacks}")
            return unknown
        if not self.labeled:
            raise ValueError(f"{place}: list the 'labels' in the task: there is no train split to collect them from")
        values = [one.value for one in found]
        hidden = reader.hidden(values, self.labels) if source == TEST else [False] * len(found)
        written = [value for value, hides in zip(values, hidden, strict=True) if not hides]
        labels = reader(self.labels, written, self.names is not None)
        read = [reader.unknown if h else labels.read(*one) for one, h in zip(found, hidden, strict=True)]
        labels.report(read, place, train=source == TRAIN)
        return {**unknown, **dict(zip(map(label_key, values), read, strict=True))}

    def read(self, split: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a split from their source, with labels and tags as numbers."""
        source = self.source(split)
        numbers, threshold, labels = self.numbers(source), self.threshold_of(source), self.reader_of(source)
        for part in self.parts(source):
            for assigned in self.rows(source, part, threshold):
                if assigned.split == split:
                    yield number_labels(assigned.row, numbers, labels)
