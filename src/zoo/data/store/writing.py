"""Rows written as arrays of numbers: token ids, offsets of units, labels, byte counts."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from zoo.data.columns.labels import LabelReader
from zoo.data.columns.messages import answers_in
from zoo.data.formats.format import Row
from zoo.data.home import explain_write_error
from zoo.data.ids import LABEL, PICTURE, TAGS, Ids, StoredFields
from zoo.data.sources.checking import AssignedRow
from zoo.data.sources.splits.numbering import label_key
from zoo.data.store.encoding import encode
from zoo.data.store.sentences import splitter
from zoo.data.tokenizers.token_spans import encode_with_spans, encode_word_lists, tokens_of
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.wording import refuse_unknown

ROWS = 4000  # rows that are tokenized together
CHARACTERS = 1 << 22  # the same, in characters: a batch ends when it reaches either limit
OTHER = CHARACTERS // 250  # the size, in characters, of a value that is no text, number or list, such as an image
SMALL = 1 << 16  # size of the largest vocabulary whose ids fit into two bytes


class ArrayWriter:
    """Arrays of numbers, each appended to a file of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kinds: dict[str, dict[str, Any]] = {}
        self.hashes: dict[str, Any] = {}

    def append(self, name: str, values: Any, dtype: DTypeLike = np.int64) -> None:
        """Append values to an array."""
        array = np.asarray(values, dtype=dtype)
        with explain_write_error(self.folder / name):
            # opened for each batch: no file stays open or buffered when a full disk or a signal ends the process
            with (self.folder / name).open("ab") as file:
                file.write(content := array.tobytes())
        self.hashes.setdefault(name, hashlib.sha256()).update(content)
        self.kinds.setdefault(name, {"dtype": array.dtype.str, "count": 0})["count"] += len(array)

    def append_lengths(self, name: str, lengths: Sequence[int]) -> None:
        """Append to an array of offsets, which begins with 0, given the lengths of the next units."""
        if name not in self.kinds:
            self.append(name, [0])
            self.kinds[name]["total"] = 0
        total = self.kinds[name]["total"]
        self.append(name, total + np.cumsum(lengths, dtype=np.int64))
        self.kinds[name]["total"] = total + sum(lengths)

    def sync(self) -> dict[str, dict[str, Any]]:
        """Flush all files to disk, since a finished folder must be complete; returns sizes, mtimes and checksums."""
        found = {}
        for name in self.kinds:
            with explain_write_error(self.folder / name), (self.folder / name).open("rb") as file:
                os.fsync(file.fileno())
                stat = os.fstat(file.fileno())
            digest = self.hashes[name].hexdigest()
            found[name] = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": digest}
        return found


class SplitWriter:
    """Writes the documents of one split to a shard, which may hold several splits.

    Args:
        split: the split.
        stores_rows: whether the source rows are stored too: evaluation needs them for references and truncated texts.
        labels: reads the labels. Classes are stored as codes, numbers as they are, with their range in the index.
    """

    def __init__(
        self,
        folder: Path,
        split: str,
        stored: StoredFields,
        tokenizer: Tokenizer | None,
        stores_rows: bool,
        labels: type[LabelReader],
    ) -> None:
        self.arrays, self.label_reader = ArrayWriter(folder), labels
        self.split, self.stored, self.tokenizer, self.stores_rows = split, stored, tokenizer, stores_rows
        self.waiting: list[AssignedRow] = []
        self.characters = self.rows = self.left_out = self.documents = 0
        self.codes: dict[tuple[str, str], int] = {}
        self.labels: list[Any] = []

    def add(self, assigned: AssignedRow) -> int:
        """Queue a row and return its number of characters; queued rows are tokenized in batches."""
        self.waiting.append(assigned)
        self.characters += sum(map(approximate_size, assigned.row.values()))
        if len(self.waiting) >= ROWS or self.characters >= CHARACTERS:
            self.flush()
        return sum(len(value) for value in assigned.row.values() if isinstance(value, str))

    def flush(self) -> None:
        """Tokenize and write the queued rows."""
        waiting, self.waiting, self.characters = self.waiting, [], 0
        if not waiting:
            return
        columns = waiting[0].row
        for name in self.stored.columns:
            refuse_unknown(name, columns, "column", self.split)
        read = [*self.stored.columns, *({LABEL} & set(columns))]
        batch = {name: [self.value(name, assigned) for assigned in waiting] for name in read}
        kept = write_batch(self.arrays, batch, self.stored, self.tokenizer)
        self.arrays.append("rows", [waiting[n].number - 1 for n in kept])
        if self.stores_rows:
            texts = [json.dumps(without_picture(waiting[n].row), ensure_ascii=False).encode() for n in kept]
            self.arrays.append_lengths("texts.offsets", [len(text) for text in texts])
            self.arrays.append("texts", np.frombuffer(b"".join(texts), np.uint8), np.uint8)
        self.rows += len(waiting)
        self.documents += len(kept)

    def value(self, name: str, assigned: AssignedRow) -> Any:
        """The stored value of a row's column: for an image the row's number, for labels and tags this shard's codes."""
        value = assigned.row[name]
        if name == PICTURE:
            return assigned.number - 1
        if name == LABEL:
            return self.label(value)
        return [self.code(tag) for tag in value] if name == TAGS else value

    def label(self, value: Any) -> int | float | list[int]:
        """The stored value of a label: a number, a code, or a list of codes."""
        if not self.label_reader.coded:
            return self.record_number(value)
        codes = [self.code(entry) for entry in self.label_reader.entries(value)]
        return codes if self.label_reader.multilabel else codes[0]

    def code(self, value: Any) -> int:
        """The code of a label in this shard, in order of occurrence; a run decides later which class it is."""
        code = self.codes.setdefault(label_key(value), len(self.codes))
        if code == len(self.labels):
            self.labels.append(value)
        return code

    def record_number(self, number: float) -> float:
        """Update the range of the labels that are numbers, and return the number; NaN, an unknown label, is ignored."""
        if number == number:  # not NaN
            self.labels = [min([number, *self.labels[:1]]), max([number, *self.labels[1:]])]
        return number

    def index(self) -> dict[str, Any]:
        """The index entry of this split."""
        counts = {"rows": self.rows, "left_out": self.left_out, "documents": self.documents}
        return {**counts, "arrays": self.arrays.kinds, "fields": self.stored.columns, "labels": self.labels}


def approximate_size(value: Any) -> int:
    """The approximate size in memory of a row's value, in characters."""
    if isinstance(value, list):
        return sum(map(approximate_size, value))
    if isinstance(value, str):
        return len(value)
    return 1 if value is None or isinstance(value, int | float) else OTHER


def without_picture(row: Row) -> Row:
    """The row without its image, which JSON cannot hold."""
    return {name: value for name, value in row.items() if name != PICTURE}


def write_batch(
    writer: ArrayWriter, batch: Mapping[str, list[Any]], stored: StoredFields, tokenizer: Tokenizer | None
) -> list[int]:
    """Tokenize and write some rows; returns the indices of those that are kept, since none of their fields is empty."""
    fields = stored.names
    units = {field: units_of(field, batch[field], stored, tokenizer) for field in fields}
    kept = [row for row in range(len(batch[fields[0]])) if all(any(map(len, units[field][row])) for field in fields)]
    for field in fields:
        flat = [ids for row in kept for ids in units[field][row]]
        writer.append_lengths(f"{field}.offsets", list(map(len, flat)))
        small = field != PICTURE and tokenizer is not None and tokenizer.vocab_size <= SMALL
        dtype = np.uint16 if small else np.uint32
        writer.append(f"{field}.ids", np.concatenate(flat) if flat else [], dtype)
        if field in stored.lists or field in stored.words:
            writer.append_lengths(f"{field}.units", [len(units[field][row]) for row in kept])
    for column, numbers in numbers_of(batch, stored, tokenizer).items():
        writer.append_lengths(f"{column}.offsets", [len(numbers[row]) for row in kept])
        writer.append(f"{column}.ids", [number for row in kept for number in numbers[row]])
    if stored.sentences:
        writer.append_lengths("sentences", [len(units[fields[0]][row]) for row in kept])
    if LABEL in batch:
        write_labels(writer, [batch[LABEL][row] for row in kept], type(batch[LABEL][0]))
    predicted = {field: predicted_of(field, batch[field], stored) for field in stored.predicted}
    writer.append("bytes", [sum(len(texts[row].encode()) for texts in predicted.values()) for row in kept])
    return kept


def write_labels(writer: ArrayWriter, labels: Sequence[Any], kind: type) -> None:
    """Append labels: codes, numbers, or a list of codes per document."""
    if kind is list:
        writer.append_lengths("labels.offsets", [len(codes) for codes in labels])
        labels = [code for codes in labels for code in codes]
    writer.append("labels", labels, np.float64 if kind is float else np.int64)


def predicted_of(field: str, values: Sequence[Any], stored: StoredFields) -> list[str]:
    """The text of each row that is predicted: the field's text, or the assistant's turns."""
    return ["".join(answers_in(turns)) for turns in values] if field in stored.lists else texts_of(values)


def texts_of(values: Sequence[Any]) -> list[str]:
    """The text of each row; if there are several references, the first."""
    return [value[0] if isinstance(value, list) else value for value in values]


def units_of(
    field: str, values: Sequence[Any], stored: StoredFields, tokenizer: Tokenizer | None
) -> Sequence[Sequence[Ids]]:
    """The ids of each row's units; a row without tokens has no units, or empty ones."""
    if field == PICTURE:  # an image is stored by its number
        return [[np.array([number])] for number in values]
    assert tokenizer is not None, "texts are tokenized"
    if field in stored.words:
        return encode_word_lists(tokenizer, values)
    if field in stored.lists:
        flat = iter(tokenizer.encode([text for texts in values for text in texts]))
        return [[next(flat) for _ in texts] for texts in values]
    split = splitter(stored.language) if stored.sentences else lambda document: [document]
    return list(encode(texts_of(values), split, tokenizer))


def numbers_of(
    batch: Mapping[str, list[Any]], stored: StoredFields, tokenizer: Tokenizer | None
) -> dict[str, list[Sequence[int]]]:
    """Each row's numbers, by column; an answer becomes two: its first token, and the one after its last."""
    found = {column: batch[column] for column in stored.numbers}
    for column, field in stored.answers:
        assert tokenizer is not None, "answers stand in a text"
        placed = encode_with_spans(tokenizer, texts_of(batch[field]))
        found[column] = [
            [place for text, begin in zip(given["text"], given["start"], strict=True)
             for place in tokens_of(tokens, begin, begin + len(text))]
            for given, tokens in zip(batch[column], placed, strict=True)
        ]  # fmt: skip
    return found
