"""Rows of train that a task leaves out: too short, too long, or with a text that stood there before."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from zoo.data.sources.checking import TRAIN, Sided, checked_rows, text_columns
from zoo.data.sources.known import remember
from zoo.data.sources.part import SourcePart
from zoo.data.sources.repeats import Repeats, RowPlace

VERSION = 1  # raise it where other rows count as repeated
LEFT_OUT = "left out"  # the side of rows that belong to no split


@dataclass(frozen=True)
class RowFilter:
    """Which rows of train stay; validation and test are as they are.

    Args:
        shortest: characters of all texts of a row together.
        longest: the same; None: any number.
        deduplicate: whether of rows with the same texts, white space aside, only the first one stays.
    """

    shortest: int = 0
    longest: int | None = None
    deduplicate: bool = False

    def takes(self, row: Mapping[str, Any]) -> bool:
        """Whether a row has the right length; one without a text has."""
        columns = text_columns(row)
        size = sum(len(text) for name in columns for text in listed(row[name]) if isinstance(text, str))
        return not columns or self.shortest <= size <= (size if self.longest is None else self.longest)

    def verify(self, place: str) -> None:
        """Raise a ValueError where no row could stay."""
        if self.shortest < 0:
            raise ValueError(f"{place}.shortest: must be at least 0, got {self.shortest}")
        if self.longest is not None and self.longest < max(1, self.shortest):
            least = max(1, self.shortest)
            raise ValueError(f"{place}.longest: must be at least {least}, got {self.longest}")


EVERY_ROW = RowFilter()


class Filtering:
    """The rows of train that a filter leaves out.

    Args:
        parts: gives those of train, each with its columns by input.
    """

    def __init__(self, rule: RowFilter, parts: Callable[[], Sequence[tuple[SourcePart, dict[str, str]]]]) -> None:
        self.rule, self.parts = rule, parts

    @cached_property
    def known(self) -> list[object]:
        """What decides which texts repeat others."""
        return ["repeated", VERSION, [[part.digest, columns] for part, columns in self.parts()]]

    @cached_property
    def repeated(self) -> dict[str, list[int]]:
        """By place of a part, the numbers of the rows, from 1, whose texts stood in an earlier row."""
        if not self.rule.deduplicate:
            return {}
        parts = self.parts()
        found = remember(self.known, lambda: find_repeated([checked_rows(*part, hides=False) for part in parts]))
        return {part.place: numbers for (part, _), numbers in zip(parts, found, strict=True)}

    @cached_property
    def digests(self) -> dict[str, str]:
        """By place of a part, a hash of those numbers: a run that finds its store reads nothing else."""

        def make() -> list[str]:
            rows = [self.repeated[part.place] for part, _ in self.parts()]
            return [sha256(json.dumps(numbers).encode()).hexdigest() for numbers in rows]

        if not self.rule.deduplicate:
            return {}
        # remembered in the order of the parts: the same files may stand elsewhere tomorrow
        found = remember(["digests by part", *self.known], make)
        return {part.place: digest for (part, _), digest in zip(self.parts(), found, strict=True)}

    def key(self, source: str, part: SourcePart) -> list[object]:
        """What decides which rows of a part are left out; nothing where all stay."""
        if source != TRAIN or self.rule == EVERY_ROW:
            return []
        return [asdict(self.rule), self.digests.get(part.place)]

    def apply(self, rows: Iterator[Sided], source: str, part: SourcePart) -> Iterator[Sided]:
        """The rows of a part; those of train that do not stay are on a side of their own."""
        if source != TRAIN or self.rule == EVERY_ROW:
            return rows
        repeated = frozenset(self.repeated.get(part.place, ()))
        return (self.judge(sided, repeated) for sided in rows)

    def judge(self, sided: Sided, repeated: frozenset[int]) -> Sided:
        stays = sided.side != TRAIN or (sided.number not in repeated and self.rule.takes(sided.row))
        return sided if stays else sided._replace(side=LEFT_OUT)


def find_repeated(parts: Sequence[Iterator[Mapping[str, Any]]]) -> list[list[int]]:
    """By part, the numbers of the rows, from 1, whose texts stood in an earlier row; sorted on disk."""
    found: list[list[int]] = [[] for _ in parts]
    with tempfile.TemporaryDirectory(prefix="zoo-filter-") as folder:
        repeats = Repeats(Path(folder))
        for number, rows in enumerate(parts):
            for row_number, row in enumerate(rows, 1):
                text = text_of(row)
                if text.strip():
                    repeats.add(text, RowPlace(0, number, row_number))
        for entries in repeats.later():
            for entry in entries:
                found[int(entry["part"])].append(int(entry["row"]))
    return [sorted(numbers) for numbers in found]


def text_of(row: Mapping[str, Any]) -> str:
    """All texts of a row in one."""
    return "\t".join(str(text) for name in text_columns(row) for text in listed(row[name]))


def listed(value: Any) -> list[Any]:
    """The entries of a list, or the one value."""
    return value if isinstance(value, list) else [value]
