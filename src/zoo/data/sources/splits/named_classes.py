"""Numbers of classes as the names that their file declares for them (`ClassLabel` of `datasets`)."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.data.columns.pictures import Pictures
from zoo.data.columns.values import is_number
from zoo.data.formats.format import Row
from zoo.data.sources.part import Rows, SourcePart


class NamedClasses(SourcePart):
    """A part of a split with the classes of one column by name.

    Read by number, a class would be mistaken for another one wherever a task, a checkpoint or another file lists the
    names in another order.

    Args:
        names: of the classes 0, 1, ...; other numbers, such as the -1 of a withheld label, stay as they are.
    """

    def __init__(self, part: SourcePart, column: str, names: Sequence[str]) -> None:
        self.part, self.column, self.names = part, column, names
        self.folder = part.folder

    @property
    def stored_in(self) -> Path | None:
        return self.part.stored_in

    @property
    def is_one_text(self) -> bool:
        return self.part.is_one_text

    @property
    def size(self) -> int:
        return self.part.size

    @property
    def place(self) -> str:
        return self.part.place

    @property
    def digest(self) -> str:
        return f"{self.part.digest} {self.column} by name {self.names}"

    @property
    def columns(self) -> list[str]:
        return self.part.columns

    def rows(self, wanted: Collection[str]) -> Rows:
        for row in self.part.rows(wanted):
            yield self.by_name(row, self.column)

    def by_name(self, row: Row, column: str) -> Row:
        """The row with its class by name, which may stand in a map: `a.b` is the entry `b` of the column `a`."""
        if column in row:
            return {**row, column: self.name(row[column])}
        first, _, inside = column.partition(".")
        below = row.get(first)
        return {**row, first: self.by_name(below, inside)} if isinstance(below, Mapping) else row

    def name(self, value: Any) -> Any:
        """The name of a class, or of each class in a list."""
        if isinstance(value, list):
            return [self.name(entry) for entry in value]
        written = isinstance(value, str) and is_number(value) and value not in self.names  # a number in CSV
        number = int(value) if written else value
        return self.names[number] if type(number) is int and 0 <= number < len(self.names) else value

    def where(self, row: int, entry: int | None = None) -> str:
        return self.part.where(row, entry)

    def line(self, row: int, entry: int | None = None) -> str:
        return self.part.line(row, entry)

    def pictures(self, column: str) -> Pictures:
        return self.part.pictures(column)
