"""Rows that a test writes, in place of files, and what is read of them."""

from typing import Any

from zoo.data.columns.columns import Columns
from zoo.data.sources.filtering import EVERY_ROW, Filtering
from zoo.data.sources.origin import Origin
from zoo.data.sources.part import Table
from zoo.data.sources.repeated.duplicates import Duplicates
from zoo.data.sources.splits.reader import SplitReader
from zoo.examples.form import inputs

ALL_STAY = Filtering(EVERY_ROW, Duplicates(list))
WORDS = {"text": [f"text {i}" for i in range(200)]}


class Given(Origin):
    """Rows written in a test; counts how often each split is read."""

    def __init__(self, **tables: dict[str, list[Any]]) -> None:
        self.tables = tables
        self.reads: list[str] = []

    def splits(self) -> tuple[str, ...]:
        return tuple(self.tables)

    def place(self, split: str) -> str:
        return f"{split}.tsv"

    def parts(self, split: str) -> list[Table]:
        def make() -> dict[str, list[Any]]:
            self.reads.append(split)
            return self.tables[split]

        return [Table(self.place(split), str(self.tables[split]), list(self.tables[split]), make)]


def column(reading: SplitReader, split: str, name: str) -> list[Any]:
    return [row[name] for row in reading.read(split)]


def reader(origin: Origin, share: float = 0.3, names: list[str] | None = None) -> SplitReader:
    return SplitReader(origin, Columns(inputs()), share, names, "one", ALL_STAY)
