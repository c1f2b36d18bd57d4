"""The rows of a task's splits: checked texts, labels as numbers, a validation split where the source has none."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from datasets import Dataset, Value

from zoo.data.ids import LABEL, PICTURE
from zoo.data.sources.columns import Columns
from zoo.data.sources.labels import Labels, absent, distinct
from zoo.data.sources.origin import Origin
from zoo.data.sources.pictures import Pictures

BATCH = 1000


class SplitRows:
    """One split, read when its rows are first asked for.

    Args:
        fingerprint: a hash of the sources' bytes and of all that decides what is read from them.
        read: gives the rows, in columns named by the objectives' inputs.
        name_labels: gives the names of the classes; none where there are no labels.
        find_pictures: gives the pictures that the rows name by number; None where there are none.
    """

    def __init__(
        self,
        fingerprint: str,
        read: Callable[[], Dataset],
        name_labels: Callable[[], tuple[str, ...]] = tuple,
        find_pictures: Callable[[], Pictures | None] = lambda: None,
    ) -> None:
        self.fingerprint = fingerprint
        self.read = read
        self.name_labels = name_labels
        self.find_pictures = find_pictures

    @cached_property
    def data(self) -> Dataset:
        """The rows: texts (outside train perhaps a list of references), labels as numbers with -1 for unknown.

        Pictures stand there by their number.
        """
        return self.read()

    @cached_property
    def pictures(self) -> Pictures:
        """The pictures of the source."""
        found = self.find_pictures()
        assert found is not None, "only rows with a column of pictures are asked for them"
        return found

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes in the order of their numbers."""
        return self.name_labels()


class SplitReader:
    """Reads the splits of one source; each is read once, also where two splits come from it.

    Args:
        share: of train that becomes validation, where the source has no such split.
        names: of the classes; None: the distinct values of train.
    """

    def __init__(self, origin: Origin, columns: Columns, share: float, names: list[str] | None) -> None:
        self.origin = origin
        self.columns = columns
        self.share = share
        self.names = names
        self.tables: dict[str, Dataset] = {}
        self.numbered: dict[str, Dataset] = {}
        self.galleries: dict[str, Pictures] = {}

    def splits(self) -> list[str]:
        """The splits there are, validation among them wherever there is a train split."""
        own = list(self.origin.splits())
        return [*own, "validation"] if self.holds_out(own) else own

    def holds_out(self, own: list[str]) -> bool:
        return "train" in own and "validation" not in own

    def read(self, split: str) -> Dataset:
        """The rows of a split."""
        own, source = list(self.origin.splits()), self.source(split)
        if source not in self.numbered:
            self.numbered[source] = self.number_labels(self.table(source), source)
        data = self.numbered[source]
        if self.holds_out(own) and source == "train":
            data = hold_out(data, self.share, self.origin.place(source), self.pictures(split))[split]
        return one_text_a_row(data, self.origin.place(source)) if split == "train" else data

    def source(self, split: str) -> str:
        """The split of the source that a split's rows come from."""
        return split if split in self.origin.splits() else "train"

    def pictures(self, split: str) -> Pictures | None:
        """The pictures that a split's rows name by number; None where they have none."""
        source = self.source(split)
        self.table(source)
        return self.galleries.get(source)

    def table(self, split: str) -> Dataset:
        """The rows as the source has them, their texts checked, pictures by their number."""
        if split not in self.tables:
            columns = replace(self.columns, optional=(LABEL,) if split == "test" else ())
            data = self.origin.read(split, columns)
            check_texts(data, self.origin.place(split))
            if PICTURE in data.column_names:
                column = data.select_columns([PICTURE])
                self.galleries[split] = Pictures(column, self.origin.folder(split), self.origin.place(split))
                # numbers, so that rows can be repeated and moved without their pictures
                numbered = data.add_column("number", np.arange(len(data))).remove_columns(PICTURE)
                data = numbered.rename_column("number", PICTURE)
            self.tables[split] = data
        return self.tables[split]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes; none where the rows have no labels."""
        if self.names is not None:
            return tuple(self.names)
        if "train" not in self.origin.splits():
            return ()
        data = self.table("train")
        if LABEL not in data.column_names:
            return ()
        return distinct(data[LABEL], self.origin.place("train"))

    def number_labels(self, data: Dataset, split: str) -> Dataset:
        """The rows with their labels as numbers."""
        place = self.origin.place(split)
        if LABEL not in data.column_names:
            if self.labels and split != "test":
                found = ", ".join(data.column_names)
                raise ValueError(f"{place}: no column is read as 'label'; found: {found}; say which under 'columns'")
            return data.add_column(LABEL, [-1] * len(data)) if self.labels else data
        if not self.labels:
            raise ValueError(f"{place}: name the 'labels' in the task: there is no train split to find them in")
        hidden = [split == "test" and absent(value) for value in data[LABEL]]
        shown = {str(value) for value, hides in zip(data[LABEL], hidden, strict=True) if not hides}
        labels = Labels(self.labels, shown, given=self.names is not None)
        numbers = [
            -1 if hides else labels.read(value, f"{place}: row {row}")
            for row, (value, hides) in enumerate(zip(data[LABEL], hidden, strict=True), 1)
        ]
        labels.report(numbers, place, train=split == "train")
        return data.remove_columns(LABEL).add_column(LABEL, numbers)


def text_columns(data: Dataset) -> list[str]:
    return [name for name in data.column_names if name not in (LABEL, PICTURE)]


def check_texts(data: Dataset, place: str) -> None:
    """Raise a ValueError where a text is not a text or a list of texts, or where there are no rows."""
    if len(data) == 0:
        raise ValueError(f"{place}: it has no rows")
    written = {name: False for name in text_columns(data)}
    for name in written:
        for row, value in enumerate(each(data, name), 1):
            texts = value if isinstance(value, list) and value else [value]
            if not all(isinstance(text, str) for text in texts):
                raise ValueError(f"{place}: row {row}: '{name}' must be a text, got {value!r}")
            written[name] = written[name] or any(text.strip() for text in texts)
    if written and not any(written.values()):
        raise ValueError(f"{place}: each of its rows ({len(data):,}) is empty")


def each(data: Dataset, column: str) -> Iterator[Any]:
    """The values of a column, read in batches."""
    for batch in data.select_columns([column]).iter(BATCH):
        yield from batch[column]


def hold_out(data: Dataset, share: float, place: str, pictures: Pictures | None = None) -> dict[str, Dataset]:
    """Train and validation: by a hash of each document, or the last part of the text where there is only one."""
    if len(data) == 1 and data.column_names == ["text"]:
        (text,) = data["text"]
        cut = int(len(text) * (1 - share))
        halves = {"train": text[:cut], "validation": text[cut:]}
        return {split: Dataset.from_dict({"text": [half]}) for split, half in halves.items()}
    texts = text_columns(data)
    documents: Iterator[Any] = iter(range(len(data)))
    if texts:
        documents = zip(*(each(data, name) for name in texts), strict=True)
    elif pictures is not None:
        documents = (pictures.digest(number) for number in each(data, PICTURE))
    places = [place_of(str(document)) for document in documents]
    border = max(share, min(places))  # the smallest source still has one row to validate on
    parts = {
        "train": [row for row, at in enumerate(places) if at > border],
        "validation": [row for row, at in enumerate(places) if at <= border],
    }
    if not parts["train"]:
        raise ValueError(f"{place}: too few different rows ({len(data)}) to hold some out for validation")
    return {split: data.select(rows) for split, rows in parts.items()}


def place_of(document: str) -> float:
    """A number from 0 to 1 that only the document's content decides."""
    return int.from_bytes(hashlib.sha256(document.encode()).digest()[:8], "big") / 2**64


def one_text_a_row(data: Dataset, place: str) -> Dataset:
    """Rows with a list of texts as one row for each of them."""
    lists = [name for name in text_columns(data) if data.features[name] != Value("string")]
    if not lists:
        return data
    if len(lists) > 1:
        raise ValueError(f"{place}: only one column may hold lists of texts, got {' and '.join(lists)}")
    values = list(each(data, lists[0]))
    rows = [row for row, texts in enumerate(values) for _ in texts]
    told = data.select(rows).remove_columns(lists).add_column(lists[0], [text for texts in values for text in texts])
    return told.select_columns(data.column_names)
