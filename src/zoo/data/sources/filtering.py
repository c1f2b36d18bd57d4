"""Rows of train that a task leaves out: too short, too long, or with a text that stands elsewhere."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from zoo.data.sources.checking import Sided, text_columns, texts_in
from zoo.data.sources.origin import TRAIN
from zoo.data.sources.part import SourcePart
from zoo.data.sources.repeated.duplicates import Duplicates, RowMarks

LEFT_OUT = "left out"  # the side of rows that belong to no split


@dataclass(frozen=True)
class RowFilter:
    """Which rows of train stay; validation and test are as they are.

    Args:
        shortest: characters of all texts of a row together.
        longest: the same; None: any number.
        deduplicate: whether of rows with the same texts, white space aside, only the first one of all sources stays,
            and none whose texts are held out.
    """

    shortest: int = 0
    longest: int | None = None
    deduplicate: bool = False

    def takes(self, row: Mapping[str, Any]) -> bool:
        """Whether a row has the right length; one without a text has."""
        size = sum(map(len, texts_in(row)))
        return not text_columns(row) or self.shortest <= size <= (size if self.longest is None else self.longest)

    def verify(self, place: str) -> None:
        """Raise a ValueError where no row could stay."""
        if self.shortest < 0:
            raise ValueError(f"{place}.shortest: must be at least 0, got {self.shortest}")
        if self.longest is not None and self.longest < max(1, self.shortest):
            least = max(1, self.shortest)
            raise ValueError(f"{place}.longest: must be at least {least}, got {self.longest}")


EVERY_ROW = RowFilter()


@dataclass(frozen=True)
class Filtering:
    """The rows of train that a filter leaves out.

    Args:
        duplicates: which rows repeat others.
    """

    rule: RowFilter
    duplicates: Duplicates

    def touches(self, source: str) -> bool:
        """Whether rows of a split of the source may be left out."""
        return source == TRAIN and self.rule != EVERY_ROW

    def key(self, source: str, part: SourcePart) -> list[object]:
        """What decides which rows of a part are left out; nothing where all stay."""
        if not self.touches(source):
            return []
        return [asdict(self.rule), self.duplicates.digest(part) if self.rule.deduplicate else None]

    def apply(self, rows: Iterator[Sided], source: str, part: SourcePart) -> Iterator[Sided]:
        """The rows of a part; those of train that do not stay are on a side of their own."""
        if not self.touches(source):
            return rows
        marks = self.duplicates.marks(part) if self.rule.deduplicate else None
        return (self.judge(sided, marks) for sided in rows)

    def judge(self, sided: Sided, marks: RowMarks | None) -> Sided:
        repeats = marks is not None and sided.number in marks
        stays = sided.side != TRAIN or (not repeats and self.rule.takes(sided.row))
        return sided if stays else sided._replace(side=LEFT_OUT)
