"""One pass over the rows of a task's source: counts, labels and duplicate rows."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from zoo.data.columns.answers import describe_unanswered
from zoo.data.columns.labels import DIFFERENT
from zoo.data.columns.pictures import decode, stored_at
from zoo.data.columns.values import are_names, written_names
from zoo.data.ids import ANSWERS, CHOICES, CONTEXT, LABEL, PICTURE, TAGS
from zoo.data.sources.checking import AssignedRow, as_list, text_columns, texts_in
from zoo.data.sources.filtering import LEFT_OUT
from zoo.data.sources.part import SourcePart
from zoo.data.sources.repeated.duplicates import join_texts
from zoo.data.sources.repeated.repeats import Repeats, RowPlace, code_of
from zoo.data.sources.rows import SplitRows
from zoo.data.sources.splits.holdout import split_key
from zoo.data.store.uneven import FirstRows, note_first, refuse_uneven
from zoo.survey.near import NearDuplicates

UNIT = 1 << 1074  # every finite float is a whole multiple of 1 / UNIT


@dataclass
class NumberTally:
    """Statistics of a split's numeric labels; the sums are exact integers, so the order of the rows does not matter.

    Args:
        total: the sum, in units of 1 / `UNIT`, the smallest positive float.
        squares: the sum of squares, in units of 1 / `UNIT`**2.
    """

    count: int = 0
    total: int = 0
    squares: int = 0
    least: float = math.inf
    most: float = -math.inf

    def add(self, number: float) -> None:
        """Add a label; NaN is skipped: it stands for the withheld label of a test split."""
        if math.isfinite(number):
            above, below = number.as_integer_ratio()
            exact = above * (UNIT // below)
            self.count, self.total, self.squares = self.count + 1, self.total + exact, self.squares + exact * exact
            self.least, self.most = min(self.least, number), max(self.most, number)

    def join(self, other: "NumberTally") -> None:
        """Add the labels of another tally."""
        self.count, self.total = self.count + other.count, self.total + other.total
        self.squares += other.squares
        self.least, self.most = min(self.least, other.least), max(self.most, other.most)

    @property
    def mean(self) -> float:
        return self.total / (self.count * UNIT)

    @property
    def variance(self) -> float:
        """The mean squared error of always guessing the mean."""
        try:
            return (self.squares * self.count - self.total**2) / (self.count * UNIT) ** 2
        except OverflowError:
            return math.inf


@dataclass
class RowTally:
    """Counts over the rows of one split.

    Args:
        sets: rows whose label is a set of classes, possibly empty.
    """

    rows: int = 0
    sets: int = 0
    empty: int = 0
    unanswered: int = 0
    characters: int = 0
    bytes: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    numbers: NumberTally = field(default_factory=NumberTally)

    def add(self, row: Mapping[str, Any], several: bool = False) -> str:
        """Count a row, and return its text with all columns joined.

        Args:
            several: whether a label is a set of classes.
        """
        texts = texts_in(row)
        text = join_texts(texts)
        self.rows += 1
        self.empty += is_empty(row)
        self.unanswered += is_unanswered(row)
        self.characters += sum(map(len, texts))
        self.bytes += sum(len(each.encode()) for each in texts)
        if isinstance(number := row.get(LABEL), float):  # a class is a text or a whole number
            self.numbers.add(number)
            return text
        if several and are_names(names := written_names(row.get(LABEL))):
            self.sets, values = self.sets + 1, list({str(name) for name in names})
        else:
            values = [*as_list(row.get(LABEL)), *as_list(row.get(TAGS))]
        for value in (str(value) for value in values if value is not None):
            self.count_label(value, 1)
        return text

    def count_label(self, value: str, count: int) -> None:
        """Add `count` occurrences of a label; once `DIFFERENT` labels are known, further ones are not counted."""
        if value in self.labels or len(self.labels) < DIFFERENT:
            self.labels[value] += count

    def plain(self) -> dict[str, Any]:
        """The counts as JSON values, for `join`."""
        return {**vars(self), "labels": dict(self.labels), "numbers": asdict(self.numbers)}

    def join(self, plain: Mapping[str, Any]) -> None:
        """Add the counts of another process, as its `plain` gives them."""
        for name in ("rows", "sets", "empty", "unanswered", "characters", "bytes"):
            setattr(self, name, getattr(self, name) + plain[name])
        for value, count in plain["labels"].items():
            self.count_label(value, count)
        self.numbers.join(NumberTally(**plain["numbers"]))


class SourceSurvey:
    """Statistics of the rows of all splits of a source.

    Args:
        rows: split name -> its rows.
        folder: an empty folder for data that does not fit into memory.

    Attributes:
        choices: number of answer choices -> the first row with that number.
        unanswered: index of a split -> its first question without an answer.
        last_image_row: the row whose image was decoded last; a row comes once per text, but its image is decoded once.
        broken: the first row whose image cannot be decoded, and the error; None if all can.
        n_broken: number of images that cannot be decoded.
    """

    def __init__(self, rows: Mapping[str, SplitRows], folder: Path) -> None:
        self.names = list(rows)
        self.tallies = {name: RowTally() for name in rows}
        self.repeats, self.near = Repeats(folder), NearDuplicates()
        self.choices: FirstRows = {}
        self.unanswered: FirstRows = {}
        self.last_image_row: RowPlace | None = None
        self.broken: tuple[RowPlace, str] | None = None
        self.n_broken = 0
        self.left_out = 0
        one_by_one = [one for split in rows.values() for one in split.sources.values()]
        sources = dict.fromkeys((one.reader, one.source) for one in one_by_one)
        self.parts = [(reader, source, part) for reader, source in sources for part in reader.parts(source)]

    @property
    def size(self) -> int:
        """Bytes of all parts as they are stored."""
        return sum(part.size for _, _, part in self.parts)

    def read(self, numbers: Iterable[int]) -> None:
        """Read the rows of the parts with these numbers, which must be ascending."""
        for number in numbers:
            reader, source, part = self.parts[number]
            several = reader.reader_of(source).multilabel
            for assigned in reader.rows(source, part, reader.threshold_of(source)):
                self.add(assigned, number, part, several)

    def add(self, assigned: AssignedRow, number: int, part: SourcePart, several: bool) -> None:
        """Add one row of part `number` to its split's counts; `several` as in `RowTally.add`."""
        if assigned.split == LEFT_OUT:
            self.left_out += 1
            return
        text = self.tallies[assigned.split].add(assigned.row, several)
        place = RowPlace(self.names.index(assigned.split), number, assigned.number)
        # training leaves out rows without a context
        if CHOICES in assigned.row and any(text.strip() for text in as_list(assigned.row[CONTEXT])):
            note_first(self.choices, len(assigned.row[CHOICES]), place)
        if PICTURE in assigned.row and place != self.last_image_row:
            self.last_image_row = place
            self.try_image(assigned.row[PICTURE], part, place)
        if is_unanswered(assigned.row):
            note_first(self.unanswered, place.split, place)
        if text:
            code = code_of(text)
            self.repeats.add(code, place)
            self.near.add(text, code, place)
        elif not text_columns(assigned.row):
            self.repeats.add(code_of(split_key(assigned.row, part, assigned.number)), place)

    def try_image(self, value: Any, part: SourcePart, place: RowPlace) -> None:
        """Decode an image as training would, and note the row if that fails."""
        try:
            decode(*stored_at(value, part.folder, ""), size=1)
        except ValueError as error:  # the row's file and line are looked up at the end: that may read files
            self.note_broken(place, str(error), 1)

    def note_broken(self, place: RowPlace, why: str, count: int) -> None:
        """Count `count` undecodable images, the first of them at `place`."""
        self.broken, self.n_broken = min(self.broken or (place, why), (place, why)), self.n_broken + count

    def plain(self) -> dict[str, Any]:
        """The statistics as JSON values, for `join`; the hashes of texts stay in the folder."""
        self.repeats.flush()
        tallies = {name: tally.plain() for name, tally in self.tallies.items()}
        firsts = {"choices": list(self.choices.items()), "unanswered": list(self.unanswered.items())}
        broken = {"broken": self.broken, "n_broken": self.n_broken}
        return {"tallies": tallies, **firsts, **broken, "left_out": self.left_out, "near": self.near.plain()}

    def join(self, others: Mapping[Path, Mapping[str, Any]]) -> None:
        """Merge the statistics of processes that read other parts; each key is the folder with the process's hashes."""
        for folder, other in others.items():
            self.left_out += other["left_out"]
            if other["broken"]:
                place, why = other["broken"]
                self.note_broken(RowPlace(*place), why, other["n_broken"])
            for count, place in other["choices"]:
                note_first(self.choices, count, RowPlace(*place))
            for split, place in other["unanswered"]:
                note_first(self.unanswered, split, RowPlace(*place))
            for name, tally in self.tallies.items():
                tally.join(other["tallies"][name])
            self.repeats.move_from(folder)
        self.near.join([other["near"] for other in others.values()])

    def refuse_unknown_labels(self) -> None:
        """Raise a ValueError if a split has a label that neither train nor the task names."""
        for reader, source in dict.fromkeys((reader, source) for reader, source, _ in self.parts):
            if reader.split_labels.exist:  # without train nothing names them: evaluation uses the checkpoint's
                reader.numbers(source)

    def refuse_broken(self) -> None:
        """Raise a ValueError if an image cannot be decoded."""
        if self.broken:
            place, why = self.broken
            more = f" ({self.n_broken:,} images cannot be read)" if self.n_broken > 1 else ""
            raise ValueError(f"{self.parts[place.part][-1].where(place.row)}{why}{more}")

    def refuse_uneven(self, setting: str) -> None:
        """Raise a ValueError if rows have different numbers of choices.

        Args:
            setting: the task setting that allows this, for the message.
        """
        refuse_uneven(self.choices, CHOICES, setting, lambda place: self.parts[place.part][-1].line(place.row))

    def refuse_unanswered(self, setting: str) -> None:
        """Raise a ValueError if a question has no answer.

        Args:
            setting: the task setting that allows this, for the message.
        """
        for split, place in sorted(self.unanswered.items()):
            name, tally = self.names[split], self.tallies[self.names[split]]
            said = describe_unanswered(tally.unanswered, tally.rows, setting)
            raise ValueError(f"{name}: {self.parts[place.part][-1].line(place.row)}: {said}")

    def where(self, place: RowPlace) -> str:
        """The split, file and line of a row, for a message."""
        return f"{self.names[place.split]}: {self.parts[place.part][-1].where(place.row)}"


def is_empty(row: Mapping[str, Any]) -> bool:
    """Whether a text of a row is blank, so that training leaves it out; of a list, all texts."""
    return not all(any(str(text).strip() for text in as_list(row[name])) for name in text_columns(row))


def is_unanswered(row: Mapping[str, Any]) -> bool:
    """Whether a row is a question without an answer."""
    return ANSWERS in row and not row[ANSWERS]["text"]


def label_counts(tally: RowTally, names: tuple[str, ...]) -> dict[str, int]:
    """The frequency of each label, most frequent first; class numbers become names if no row uses a name."""
    numbered = {str(number): name for number, name in enumerate(names)}
    is_named = any(value in names for value in tally.labels)
    given = sorted(tally.labels.items(), key=lambda one: (-one[1], one[0]))
    return {value if is_named else numbered.get(value, value): count for value, count in given}
