"""The rows of a task's splits: read part by part, labels by name, a validation split where the source has none."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from zoo.data.formats.format import Row
from zoo.data.ids import LABEL
from zoo.data.sources.checking import ONE_TEXT, TRAIN, VALIDATION, Sided, checked_rows, hold_out, one_text_a_row
from zoo.data.sources.columns import Columns
from zoo.data.sources.known import remember
from zoo.data.sources.labels import Labels, Occurrence, absent, distinct
from zoo.data.sources.origin import Origin
from zoo.data.sources.part import Part

VERSION = 3  # raise it where the same sources are read in another way


class SplitReader:
    """Reads the splits of one source.

    Args:
        share: of train that becomes validation, where the source has no such split.
        names: of the classes; None: the distinct values of train.
    """

    def __init__(self, origin: Origin, columns: Columns, share: float, names: list[str] | None) -> None:
        self.origin = origin
        self.columns = columns
        self.share = share
        self.names = names
        self.holds_out = TRAIN in origin.splits() and VALIDATION not in origin.splits()
        self.parts = cache(origin.parts)
        self.found_labels = cache(self.find_labels)

    def splits(self) -> list[str]:
        """The splits there are, validation among them wherever there is a train split."""
        return [*self.origin.splits(), *([VALIDATION] if self.holds_out else [])]

    def source(self, split: str) -> str:
        """The split of the source that a split's rows come from."""
        return split if split in self.origin.splits() else TRAIN

    def sides(self, source: str) -> tuple[str, ...]:
        """The splits that a split of the source becomes."""
        return (TRAIN, VALIDATION) if self.holds_out and source == TRAIN else (source,)

    def choose(self, source: str, part: Part) -> dict[str, str]:
        """Input -> column of a part.

        Raises:
            ValueError: a column is missing.
        """
        columns = replace(self.columns, optional=(LABEL,) if source == "test" else ())
        return columns.choose(part.columns, part.place)

    def inputs(self, source: str) -> list[str]:
        """The columns of a split, by what they are for."""
        found = list(self.choose(source, self.parts(source)[0]))
        return found if LABEL in found or not self.labels else [*found, LABEL]

    def fingerprint(self, split: str) -> str:
        """A hash of the sources' bytes and of all that decides what is read from them."""
        source = self.source(split)
        parts = [[part.digest, self.choose(source, part)] for part in self.parts(source)]
        decided = json.dumps([VERSION, split, parts, self.names, self.share], sort_keys=True)
        return hashlib.sha256(decided.encode()).hexdigest()

    def rows(self, source: str, part: Part, border: float) -> Iterator[Sided]:
        """The rows of a part of the source, one after the other, each with the split that it falls in.

        Args:
            border: of the hashes that are held out.

        Raises:
            ValueError: the rows are not what they should be.
        """
        rows = checked_rows(part, self.choose(source, part))
        if self.holds_out and source == TRAIN:
            sided = hold_out(part, rows, self.share, border, len(self.parts(source)) == 1)
        else:
            sided = (Sided(source, number, row) for number, row in enumerate(rows, 1))
        return one_text_a_row(sided, part.place)

    @cached_property
    def border(self) -> float:
        """Rows of train whose hash falls up to here are held out; the smallest source has one row to validate on."""
        parts = self.parts(TRAIN)
        key = [VERSION, [[part.digest, self.choose(TRAIN, part)] for part in parts], self.share]
        return float(remember(["border", *key], self.find_border))

    def find_border(self) -> float:
        """The share, unless every row's hash is larger; reads no more rows than that takes.

        Raises:
            ValueError: every row would be held out.
        """
        least, most, count = 1.0, 0.0, 0
        for part in self.parts(TRAIN):
            for sided in self.rows(TRAIN, part, self.share):
                least, most, count = min(least, sided.at), max(most, sided.at), count + 1
                if least <= self.share < most or sided.at == ONE_TEXT:
                    return self.share
        if most <= max(self.share, least):
            place = self.origin.place(TRAIN)
            raise ValueError(f"{place}: too few different rows ({count}) to hold some out for validation")
        return max(self.share, least)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes; none where the rows have no labels."""
        if self.names is not None:
            return tuple(self.names)
        if TRAIN not in self.origin.splits():
            return ()
        found = self.found_labels(TRAIN)
        return distinct(found) if found else ()

    def find_labels(self, source: str) -> list[Occurrence]:
        """Each label that a split of the source holds, and where first; none where it has no such column."""
        first: dict[tuple[str, str], Occurrence] = {}
        for part in self.parts(source):
            if LABEL in (chosen := self.choose(source, part)):
                column = chosen[LABEL]
                for value, row in remember(["labels", part.digest, column], lambda: labels_of(part, column)):
                    first.setdefault((type(value).__name__, str(value)), Occurrence(value, row, part.place))
        return list(first.values())

    def numbers(self, source: str) -> dict[tuple[str, str], int]:
        """The number of each label that a split of the source holds; -1 where a test split keeps it to itself.

        Raises:
            ValueError: a label is none of the names, or the split lacks the column.
        """
        found, place = self.found_labels(source), self.origin.place(source)
        if not found:
            if self.labels and source != "test":
                names = ", ".join(self.choose(source, self.parts(source)[0]))
                raise ValueError(f"{place}: no column is read as 'label'; found: {names}; say which under 'columns'")
            return {}
        if not self.labels:
            raise ValueError(f"{place}: name the 'labels' in the task: there is no train split to find them in")
        hidden = [source == "test" and absent(value) for value, _, _ in found]
        written = {str(one.value) for one, hides in zip(found, hidden, strict=True) if not hides}
        labels = Labels(self.labels, written, self.names is not None)
        numbers = [
            -1 if hides else labels.read(one.value, f"{one.place}: row {one.row}")
            for one, hides in zip(found, hidden, strict=True)
        ]
        labels.report(numbers, place, train=source == TRAIN)
        return {label_key(one.value): number for one, number in zip(found, numbers, strict=True)}


def label_key(value: object) -> tuple[str, str]:
    """What tells labels apart that JSON writes alike or not at all."""
    return type(value).__name__, str(value)


def labels_of(part: Part, column: str) -> list[tuple[object, int]]:
    """Each different label of a part, and the row where it stands first."""
    first: dict[tuple[str, str], tuple[object, int]] = {}
    for number, row in enumerate(part.rows([column]), 1):
        if column not in row:
            raise ValueError(f"{part.place}: row {number}: column '{column}' is missing")
        first.setdefault(label_key(row[column]), (row[column], number))
    return list(first.values())


@dataclass(frozen=True)
class SplitRows:
    """One split: what a run must know of it, and its rows where they are asked for.

    Args:
        asked: whether the split was named: then its rows are going to be asked for, too.
    """

    reader: SplitReader
    split: str
    asked: bool = False

    @property
    def source(self) -> str:
        """The split of the source that its rows come from."""
        return self.reader.source(self.split)

    @property
    def parts(self) -> Sequence[Part]:
        return self.reader.parts(self.source)

    @property
    def place(self) -> str:
        return self.reader.origin.place(self.source)

    @cached_property
    def inputs(self) -> list[str]:
        """The columns that the split has, by what they are for."""
        return self.reader.inputs(self.source)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the sources' bytes and of all that decides what is read from them."""
        return self.reader.fingerprint(self.split)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes in the order of their numbers."""
        return self.reader.labels

    @property
    def border(self) -> float:
        """Rows whose hash falls up to here are held out; the smallest source still has one row to validate on."""
        return self.reader.border if self.reader.holds_out and self.source == TRAIN else self.reader.share

    def __iter__(self) -> Iterator[Row]:
        """The rows from their source, one after the other, their labels as they are written there."""
        for part in self.parts:
            yield from (one.row for one in self.reader.rows(self.source, part, self.border) if one.side == self.split)
