"""The filter that drops rows of train: too short, too long, or with a text that occurs elsewhere."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from zoo.data.sources.checking import AssignedRow, text_columns, texts_in
from zoo.data.sources.origin import TRAIN
from zoo.data.sources.part import SourcePart
from zoo.data.sources.repeated.duplicates import Duplicates, RowMarks

LEFT_OUT = "left out"  # in place of a split's name, for rows that are dropped


@dataclass(frozen=True)
class RowFilter:
    """Which rows of train are kept; validation and test are not filtered.

    Args:
        shortest: minimum characters of all texts of a row together.
        longest: maximum characters of all texts of a row together; None: no limit.
        deduplicate: whether to keep, of rows whose texts are equal up to white space, only the first one of all
            sources, and none whose texts are held out.
    """

    shortest: int = 0
    longest: int | None = None
    deduplicate: bool = False

    def takes(self, row: Mapping[str, Any]) -> bool:
        """Whether a row has an allowed length; a row without text columns has."""
        size = sum(map(len, texts_in(row)))
        return not text_columns(row) or self.shortest <= size <= (size if self.longest is None else self.longest)

    def verify(self, place: str) -> None:
        """Raise a ValueError if a limit is negative or no row could be kept."""
        if self.shortest < 0:
            raise ValueError(f"{place}.shortest: must be at least 0, got {self.shortest}")
        if self.longest is not None and self.longest < max(1, self.shortest):
            least = max(1, self.shortest)
            raise ValueError(f"{place}.longest: must be at least {least}, got {self.longest}")


EVERY_ROW = RowFilter()


@dataclass(frozen=True)
class Filtering:
    """Applies a row filter to rows of train.

    Args:
        duplicates: finds the rows that repeat others.
    """

    rule: RowFilter
    duplicates: Duplicates

    def touches(self, source: str) -> bool:
        """Whether rows of a split of the source may be dropped."""
        return source == TRAIN and self.rule != EVERY_ROW

    def key(self, source: str, part: SourcePart) -> list[object]:
        """What determines the rows of a part that are dropped, as plain values; empty if none can be."""
        if not self.touches(source):
            return []
        return [asdict(self.rule), self.duplicates.digest(part) if self.rule.deduplicate else None]

    def apply(self, rows: Iterator[AssignedRow], source: str, part: SourcePart) -> Iterator[AssignedRow]:
        """The rows of a part; the split of those that are dropped is `LEFT_OUT`."""
        if not self.touches(source):
            return rows
        marks = self.duplicates.marks(part) if self.rule.deduplicate else None
        return (self.judge(assigned, marks) for assigned in rows)

    def judge(self, assigned: AssignedRow, marks: RowMarks | None) -> AssignedRow:
        """The row, with the split `LEFT_OUT` if it is dropped."""
        repeats = marks is not None and assigned.number in marks
        stays = assigned.split != TRAIN or (not repeats and self.rule.takes(assigned.row))
        return assigned if stays else assigned._replace(split=LEFT_OUT)
