"""The rows of a task's splits, with what a run needs to know about them."""

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
from zoo.data.sources.splits.reader import SplitReader


@dataclass(frozen=True)
class SplitRows:
    """One split: what a run needs to know about it, and its rows, read when they are iterated over.

    Args:
        is_requested: whether the split was requested by name: then its source rows are stored with its tokens.
    """

    reader: SplitReader
    split: str
    is_requested: bool = False

    @property
    def sources(self) -> Mapping[str, "SplitRows"]:
        """The sources that it is mixed from, by name; itself if it is not mixed."""
        return {"": self}

    @property
    def weights(self) -> Mapping[str, float]:
        """The weight of each source, by name; empty if it is not mixed."""
        return {}

    @property
    def cache_name(self) -> str:
        """A name for what is made from the split: all that determines its rows, except the content of the source."""
        rule, chosen = self.reader.filtering.rule, self.reader.chosen(self.source)
        filtered = "" if rule == EVERY_ROW else f" {rule}"
        return f"{self.reader.origin.cache_name(self.source)} {chosen} {self.reader.validation_share}{filtered}"

    @property
    def source(self) -> str:
        """The split of the source that its rows are read from."""
        return self.reader.source(self.split)

    @property
    def parts(self) -> Sequence[SourcePart]:
        return self.reader.parts(self.source)

    @property
    def stored_splits(self) -> dict[str, bool]:
        """The splits that the source's split is divided into -> whether source rows are stored with their tokens.

        Evaluation needs the rows for references, and for the bytes of truncated texts. A validation split held out of
        train is evaluated from the shards that training made: rows of train are not needed for it.
        """
        stores_train = self.is_requested and self.split == TRAIN
        return {split: split != TRAIN or stores_train for split in self.reader.splits_in(self.source)}

    @property
    def place(self) -> str:
        return self.reader.origin.place(self.source)

    @property
    def columns(self) -> list[str]:
        """The names of the columns of the first file, whether they are read or not."""
        return self.parts[0].columns

    @cached_property
    def inputs(self) -> list[str]:
        """The inputs of the split."""
        return self.reader.inputs(self.source)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the sources' digests and of everything that determines what is read from them."""
        return self.fingerprint_of(named=True)

    def fingerprint_of(self, named: bool) -> str:
        """As `SplitReader.fingerprint`."""
        return self.reader.fingerprint(self.split, named)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes in the order of their numbers."""
        return self.reader.labels

    @property
    def label_reader(self) -> type[LabelReader]:
        """The label reader of its source."""
        return self.reader.reader_of(self.source)

    def pictures(self, part: SourcePart) -> Pictures:
        """The images of a part, by the index of their row."""
        column = self.reader.choose(self.source, part)[PICTURE]
        assert isinstance(column, str), "several columns are texts"
        return part.pictures(column)

    @property
    def holdout_threshold(self) -> float:
        """Rows whose hash is at most this are held out; at least one row is, however small the source."""
        return self.reader.threshold_of(self.source)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows from their source, with labels and tags as numbers."""
        return self.reader.read(self.split)


def refuse_unlabeled(rows: Mapping[str, SplitRows], objectives: Sequence[str]) -> None:
    """Refuse a train or validation split without labels if an objective learns from them.

    Args:
        rows: split name -> its rows.
        objectives: the names of those that learn from labels.

    Raises:
        ValueError: names the columns that the split has.
    """
    for name, one in rows.items():
        if objectives and name != TEST and LABEL not in one.inputs:
            needs, found = " and ".join(objectives), ", ".join(one.columns)
            raise ValueError(
                f"{one.place}: no column is read as 'label', which {needs} needs; found: {found}; "
                "name it under 'columns'"
            )
