"""The rows of a task's splits: checked texts, labels as numbers, a validation split where the source has none."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from datasets import Dataset, Value

from zoo.data.ids import LABEL, LISTS, NOT_TEXT, PICTURE, TAGS, WORDS
from zoo.data.sources.answers import settle_answers
from zoo.data.sources.columns import Columns
from zoo.data.sources.labels import Labels, absent, distinct
from zoo.data.sources.lists import check_lists, each, number_tags
from zoo.data.sources.origin import Origin
from zoo.data.sources.pictures import Pictures

HIDDEN = (LABEL, TAGS)  # what a test split may keep to itself


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
        self.holds_out = "train" in origin.splits() and "validation" not in origin.splits()
        self.table, self.numbered = cache(self.read_table), cache(self.number_labels)

    def splits(self) -> list[str]:
        """The splits there are, validation among them wherever there is a train split."""
        return [*self.origin.splits(), *(["validation"] if self.holds_out else [])]

    def read(self, split: str) -> Dataset:
        """The rows of a split."""
        source = self.source(split)
        data, place = self.numbered(source), self.origin.place(source)
        if self.holds_out and source == "train":
            data = hold_out(data, self.share, place, self.pictures(split))[split]
        return one_text_a_row(data, place) if split == "train" else data

    def source(self, split: str) -> str:
        """The split of the source that a split's rows come from."""
        return split if split in self.origin.splits() else "train"

    def pictures(self, split: str) -> Pictures | None:
        """The pictures that a split's rows name by number; None where they have none."""
        return self.table(self.source(split))[1]

    def read_table(self, split: str) -> tuple[Dataset, Pictures | None]:
        """The rows as the source has them, their texts checked, pictures by their number."""
        columns, place = replace(self.columns, optional=HIDDEN if split == "test" else ()), self.origin.place(split)
        data = self.origin.read(split, columns)
        check_texts(data, place)
        check_lists(data, where := partial(self.origin.where, split))
        data = settle_answers(data, where)
        if PICTURE not in data.column_names:
            return data, None
        pictures = Pictures(data.select_columns([PICTURE]), self.origin.folder(split), place)
        # numbers, so that rows can be repeated and moved without their pictures
        numbered = data.add_column("number", np.arange(len(data))).remove_columns(PICTURE)
        return numbered.rename_column("number", PICTURE), pictures

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes; none where the rows have no labels."""
        if self.names is not None:
            return tuple(self.names)
        data = self.table("train")[0] if "train" in self.origin.splits() else None
        if data is not None and LABEL in data.column_names:
            return distinct(data[LABEL], self.origin.place("train"))
        if data is not None and {WORDS, TAGS} <= set(data.column_names):
            return distinct((tag for tags in each(data, TAGS) for tag in tags or ()), self.origin.place("train"))
        return ()

    def number_labels(self, split: str) -> Dataset:
        """The rows with their labels, or the tags of their words, as numbers; -1 where a test split hides them."""
        data, place = self.table(split)[0], self.origin.place(split)
        if WORDS in data.column_names and LABEL not in data.column_names:
            return self.number_tags(data, split)
        if LABEL not in data.column_names:
            if self.labels and split != "test":
                found = ", ".join(data.column_names)
                raise ValueError(f"{place}: no column is read as 'label'; found: {found}; say which under 'columns'")
            return data.add_column(LABEL, [-1] * len(data)) if self.labels else data
        if not self.labels:
            raise ValueError(f"{place}: name the 'labels' in the task: there is no train split to find them in")
        hidden = [split == "test" and absent(value) for value in data[LABEL]]
        values = list(zip(data[LABEL], hidden, strict=True))
        labels = Labels(self.labels, {str(value) for value, hides in values if not hides}, self.names is not None)
        numbers = [
            -1 if hides else labels.read(value, f"{place}: row {row}") for row, (value, hides) in enumerate(values, 1)
        ]
        labels.report(numbers, place, train=split == "train")
        return data.remove_columns(LABEL).add_column(LABEL, numbers)

    def number_tags(self, data: Dataset, split: str) -> Dataset:
        """The rows with the tags of their words as numbers."""
        if TAGS not in data.column_names:
            if split != "test":
                return data  # the form names the column that is missing
            return data.add_column(TAGS, [[-1] * len(words) for words in each(data, WORDS)])
        written = {str(tag) for tags in each(data, TAGS) for tag in tags or () if not absent(tag)}
        labels, where = Labels(self.labels, written, self.names is not None), partial(self.origin.where, split)
        numbers = number_tags(data, labels, where, hides=split == "test")
        labels.report({n for tags in numbers for n in tags}, self.origin.place(split), train=split == "train")
        return data.remove_columns(TAGS).add_column(TAGS, numbers)


@dataclass(frozen=True)
class SplitRows:
    """One split, read when its rows are first asked for: a cache that is whole needs none of them.

    Args:
        fingerprint: a hash of the sources' bytes and of all that decides what is read from them.
    """

    fingerprint: str
    reader: SplitReader
    split: str

    @cached_property
    def data(self) -> Dataset:
        """The rows: texts (outside train perhaps a list of references), labels as numbers with -1 for unknown.

        Pictures stand there by their number.
        """
        return self.reader.read(self.split)

    @property
    def pictures(self) -> Pictures:
        """The pictures of the source."""
        found = self.reader.pictures(self.split)
        assert found is not None, "only rows with a column of pictures are asked for them"
        return found

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes in the order of their numbers."""
        return self.reader.labels


def text_columns(data: Dataset) -> list[str]:
    """The columns of texts, of lists of them included."""
    return [name for name in data.column_names if name not in NOT_TEXT]


def texts_in(data: Dataset) -> Iterator[str]:
    """Every text, column after column."""
    for column in text_columns(data):
        for value in each(data, column):
            if isinstance(value, str):
                yield value
            else:
                yield from [" ".join(value)] if column == WORDS else value


def check_texts(data: Dataset, place: str) -> None:
    """Raise a ValueError where a text is not a text or a list of texts, or where there are no rows."""
    if len(data) == 0:
        raise ValueError(f"{place}: it has no rows")
    written = {name: False for name in text_columns(data)}
    for name in written:
        for row, value in enumerate(each(data, name), 1):
            texts = value if isinstance(value, list) and (value or name in LISTS) else [value]
            if not all(isinstance(text, str) for text in texts):
                raise ValueError(f"{place}: row {row}: '{name}' must be a text, got {value!r}")
            written[name] = written[name] or any(text.strip() for text in texts)
    if written and not any(written.values()):
        raise ValueError(f"{place}: each of its rows ({len(data):,}) is empty")


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
    lists = [name for name in text_columns(data) if name not in LISTS and data.features[name] != Value("string")]
    if not lists:
        return data
    if len(lists) > 1:
        raise ValueError(f"{place}: only one column may hold lists of texts, got {' and '.join(lists)}")
    values = list(each(data, lists[0]))
    rows = [row for row, texts in enumerate(values) for _ in texts]
    told = data.select(rows).remove_columns(lists).add_column(lists[0], [text for texts in values for text in texts])
    return told.select_columns(data.column_names)
