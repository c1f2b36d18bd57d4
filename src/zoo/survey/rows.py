"""One pass over the rows of a task's source: counts, labels, and rows that repeat others."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoo.data.ids import LABEL, TAGS
from zoo.data.sources.checking import content, text_columns
from zoo.data.sources.duplicates import listed
from zoo.data.sources.filtering import LEFT_OUT
from zoo.data.sources.part import SourcePart
from zoo.data.sources.reader import SplitReader
from zoo.data.sources.repeats import Repeats, RowPlace, code_of
from zoo.data.sources.rows import SplitRows
from zoo.survey.near import NearRepeats

MOST_LABELS = 10_000  # different values that are counted


@dataclass
class NumberTally:
    """What is known of the labels of a split that are numbers."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0  # the sum of squared distances from the mean
    least: float = math.inf
    most: float = -math.inf

    def add(self, number: float) -> None:
        """Count one more; what is no number is a label that a test split keeps to itself."""
        if math.isfinite(number):
            # Welford 1962: large numbers that differ little would cancel in a sum of squares
            self.count, distance = self.count + 1, number - self.mean
            self.mean += distance / self.count
            self.squares += distance * (number - self.mean)
            self.least, self.most = min(self.least, number), max(self.most, number)

    @property
    def variance(self) -> float:
        """The mean squared error of the mean."""
        return self.squares / self.count


@dataclass
class RowTally:
    """What the rows of one split hold."""

    rows: int = 0
    empty: int = 0
    characters: int = 0
    bytes: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    numbers: NumberTally = field(default_factory=NumberTally)

    def add(self, row: Mapping[str, Any]) -> str:
        """Count one more row; its text, all columns together."""
        texts = [str(text) for name in text_columns(row) for text in listed(row[name])]
        text = "\t".join(texts)
        self.rows += 1
        self.empty += bool(texts) and not text.strip()
        self.characters += sum(map(len, texts))
        self.bytes += sum(len(each.encode()) for each in texts)
        if isinstance(number := row.get(LABEL), float):  # a class is a text or a whole number
            self.numbers.add(number)
            return text
        values = [*listed(row.get(LABEL)), *listed(row.get(TAGS))]
        for value in (str(value) for value in values if value is not None):
            if value in self.labels or len(self.labels) < MOST_LABELS:
                self.labels[value] += 1
        return text


class SourceSurvey:
    """The rows of all splits of a source.

    Args:
        rows: the splits by name.
        folder: an empty one, for what does not fit into memory.
    """

    def __init__(self, rows: Mapping[str, SplitRows], folder: Path) -> None:
        self.names = list(rows)
        self.tallies = {name: RowTally() for name in rows}
        self.repeats, self.near = Repeats(folder), NearRepeats()
        self.left_out = 0
        self.parts: list[SourcePart] = []
        one_by_one = [one for split in rows.values() for one in split.sources.values()]
        for reader, source in dict.fromkeys((one.reader, one.source) for one in one_by_one):
            self.read(reader, source)

    def read(self, reader: SplitReader, source: str) -> None:
        """All rows of a split of a source, each to the split that it falls in."""
        for number, part in enumerate(reader.parts(source), len(self.parts)):
            self.parts.append(part)
            for sided in reader.rows(source, part, reader.border_of(source)):
                if sided.side == LEFT_OUT:
                    self.left_out += 1
                    continue
                text = self.tallies[sided.side].add(sided.row)
                place = RowPlace(self.names.index(sided.side), number, sided.number)
                if text.strip():
                    code = code_of(text)
                    self.repeats.add_code(code, place)
                    self.near.add(text, code, place)
                elif not text_columns(sided.row):
                    self.repeats.add(content(sided.row, part, sided.number), place)

    def where(self, place: RowPlace) -> str:
        """A row for a person to find."""
        return f"{self.names[place.split]}: {self.parts[place.part].where(place.row)}"


def counted(tally: RowTally, names: tuple[str, ...]) -> dict[str, int]:
    """How often each label is given, the most frequent first; those that a row names by number have their name."""
    numbered = {str(number): name for number, name in enumerate(names)}
    is_named = any(value in names for value in tally.labels)
    given = tally.labels.most_common()
    return {value if is_named else numbered.get(value, value): count for value, count in given}
