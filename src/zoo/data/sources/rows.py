"""The rows of a task's splits, and what a run must know of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from zoo.data.columns.labels import LabelReader
from zoo.data.columns.pictures import Pictures
from zoo.data.ids import LABEL, PICTURE
from zoo.data.sources.filtering import EVERY_ROW
from zoo.data.sources.origin import TEST, TRAIN
from zoo.data.sources.part import SourcePart
from zoo.data.sources.reader import SplitReader


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
    def sources(self) -> Mapping[str, "SplitRows"]:
        """By name, the sources that it is mixed from; itself where it is one."""
        return {"": self}

    @property
    def weights(self) -> Mapping[str, float]:
        """By the name of a source, its weight; none where nothing is mixed."""
        return {}

    @property
    def called(self) -> str:
        """What decides its rows beside what lies in the parts of its source: a name for what is made from it."""
        rule, chosen = self.reader.filtering.rule, self.reader.chosen(self.source)
        filtered = "" if rule == EVERY_ROW else f" {rule}"
        return f"{self.reader.origin.called(self.source)} {chosen} {self.reader.share}{filtered}"

    @property
    def source(self) -> str:
        """The split of the source that its rows come from."""
        return self.reader.source(self.split)

    @property
    def parts(self) -> Sequence[SourcePart]:
        return self.reader.parts(self.source)

    @property
    def sides(self) -> dict[str, bool]:
        """The splits that its source's split becomes, and whether their rows are kept where they are tokenised.

        References, and the bytes of what was read in part, are asked for where a model is evaluated. Where a split is
        held out of train and evaluated, it lies in the shards that training made: no row of train is asked for.
        """
        keeps_train = self.asked and self.split == TRAIN
        return {side: side != TRAIN or keeps_train for side in self.reader.sides(self.source)}

    @property
    def place(self) -> str:
        return self.reader.origin.place(self.source)

    @cached_property
    def inputs(self) -> list[str]:
        """The inputs that the split has."""
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
    def label_reader(self) -> type[LabelReader]:
        """What reads the labels of its source."""
        return self.reader.reader_of(self.source)

    def pictures(self, part: SourcePart) -> Pictures:
        """The pictures of a part, by the number of their row."""
        column = self.reader.choose(self.source, part)[PICTURE]
        assert isinstance(column, str), "several columns are texts"
        return part.pictures(column)

    @property
    def border(self) -> float:
        """Rows whose hash falls up to here are held out; the smallest source still has one row to validate on."""
        return self.reader.border_of(self.source)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows from their source, one after the other, with labels and tags as numbers."""
        return self.reader.read(self.split)


def refuse_unlabelled(rows: Mapping[str, SplitRows], objectives: Sequence[str]) -> None:
    """Refuse a split without labels where a model is trained, or judged, by them; neither reads the test split.

    Args:
        rows: by the name of their split.
        objectives: the names of those that learn from labels.

    Raises:
        ValueError: names the columns that the split has.
    """
    for name, one in rows.items():
        if objectives and name != TEST and LABEL not in one.inputs:
            needs, found = " and ".join(objectives), ", ".join(one.inputs)
            raise ValueError(
                f"{one.place}: no column is read as 'label', which {needs} needs; found: {found}; "
                "name it under 'columns'"
            )
