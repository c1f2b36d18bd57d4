"""Reads the splits of one source: labels by name, and a validation split held out of train if the source has none."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache, cached_property, partial
from typing import Any

from zoo.data.columns.columns import Columns
from zoo.data.columns.labels import READERS
from zoo.data.ids import LABEL, PICTURE, TAGS, WORDS
from zoo.data.sources.checking import AssignedRow, checked_rows, expand_texts
from zoo.data.sources.file_cache import remember
from zoo.data.sources.filtering import Filtering
from zoo.data.sources.image_files import digest_image_files
from zoo.data.sources.origin import TEST, TRAIN, VALIDATION, Origin
from zoo.data.sources.part import SourcePart
from zoo.data.sources.repeated.duplicates import ComparedPart
from zoo.data.sources.splits.holdout import find_threshold, hold_out
from zoo.data.sources.splits.labels import SplitLabels
from zoo.data.sources.splits.numbering import (
    number_labels,
    read_numbers,
    storable_rows,
)
from zoo.data.sources.splits.parts import SplitParts
from zoo.wording import counted

VERSION = 7  # increase it when the same sources are read differently


class SplitReader:
    """Reads the splits of one source.

    Args:
        validation_share: fraction of train that becomes validation, if the source has no such split.
        names: as `SplitLabels` has them.
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
        self.validation_share, self.kind = validation_share, kind
        self.split_parts = SplitParts(origin, columns, names, READERS[kind].named)
        self.split_labels = SplitLabels(self.split_parts, names, kind)
        self.parts, self.choose, self.chosen = self.split_parts.of, self.split_parts.choose, self.split_parts.chosen
        self.reader_of, self.numbers = self.split_labels.reader_of, self.split_labels.numbers
        self.holds_out = TRAIN in origin.splits() and VALIDATION not in origin.splits()
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

    def inputs(self, source: str) -> list[str]:
        """The inputs of a split, including those that a test split withholds."""
        found = list(self.chosen(source))
        if source != TEST or LABEL in found or TAGS in found:
            return found
        if WORDS in found:
            return [*found, TAGS]
        return [*found, LABEL] if self.split_labels.exist else found

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
        names = self.split_labels.names if named else None
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
        unread = self.split_parts.columns_of(source, part).unread(part.columns)
        chosen = self.choose(source, part)
        rows = checked_rows(part, chosen, source == TEST, unread)
        if LABEL in self.inputs(source):
            if LABEL not in chosen:
                rows = ({**row, LABEL: None} for row in rows)
            reader = self.reader_of(source)
            rows = storable_rows(rows, part) if reader.coded else read_numbers(rows, reader, part, source == TEST)
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

    @property
    def labels(self) -> tuple[str, ...]:
        """As `SplitLabels.classes`."""
        return self.split_labels.classes

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
        """As `holdout.find_threshold`.

        Raises:
            ValueError: every row would be held out.
        """
        found, count = find_threshold(self.validation_share, self.rows_of_train)
        if found is None:
            few = (
                f"too few different {'images' if PICTURE in self.inputs(TRAIN) else 'rows'} in {counted(count, 'row')}"
            )
            raise ValueError(f"{self.origin.place(TRAIN)}: {few} to hold some out for validation")
        return found

    def rows_of_train(self) -> Iterator[AssignedRow]:
        """Yield all rows of train, before rows are dropped, with the hashes that hold them out."""
        for part in self.parts(TRAIN):
            yield from self.assigned_rows(TRAIN, part, self.validation_share)

    def read(self, split: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a split from their source, with labels and tags as numbers."""
        source = self.source(split)
        numbers, threshold, labels = self.numbers(source), self.threshold_of(source), self.reader_of(source)
        for part in self.parts(source):
            for assigned in self.rows(source, part, threshold):
                if assigned.split == split:
                    yield number_labels(assigned.row, numbers, labels)
