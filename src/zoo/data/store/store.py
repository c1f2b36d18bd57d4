"""Texts tokenised once, into a folder that later runs map into memory."""

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import DTypeLike, NDArray

from zoo.data.ids import LABEL, PICTURE, Ids, StoredFields
from zoo.data.sources.rows import SplitRows
from zoo.data.store.sentences import rule, splitter
from zoo.data.store.split import INDEX, Split
from zoo.data.tokenizers.placed import place_tokens, place_words, tokens_of
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.registry import refuse_unknown

VERSION = 2  # raise it where the same rows and tokenizer give another cache
ROWS = 250  # rows between two reports of progress
BATCH = 1000  # texts that the tokenizer is given at once: articles hold thousands of sentences
Progress = Callable[[str, int, int], None]
logger = logging.getLogger(__name__)


def open_cache(
    rows: Mapping[str, SplitRows], stored: StoredFields, tokenizer: Tokenizer | None, progress: Progress | None = None
) -> dict[str, Split]:
    """Each split tokenised: mapped where the cache has it, else made and kept.

    Args:
        stored: what the form of the examples keeps of each document.
        tokenizer: None where that is no text.
        progress: called with the split, the documents done and how many there are.

    Raises:
        ValueError: a column is missing, or no document has any text.
    """
    return {name: open_split(name, split, stored, tokenizer, progress) for name, split in rows.items()}


def home() -> Path:
    """The folder of all caches: $ZOO_CACHE, default `~/.cache/zoo`."""
    named = os.environ.get("ZOO_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "zoo"


def open_split(
    name: str, rows: SplitRows, stored: StoredFields, tokenizer: Tokenizer | None, progress: Progress | None
) -> Split:
    """One split from its folder, which is made where it is missing or damaged."""
    of_tokenizer = [] if tokenizer is None else [tokenizer.digest, tokenizer.vocab_size]
    of_sentences = [rule(stored.language)] if stored.sentences else []
    decided = json.dumps([VERSION, rows.fingerprint, stored, *of_sentences, *of_tokenizer])
    folder = home() / hashlib.sha256(decided.encode()).hexdigest()[:32]
    try:
        return Split(folder, rows)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError) as damage:
        logger.warning("the cache %s is damaged (%s) and is made again", folder, damage)
    with name_file(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=folder.parent) as beside:
        made = Path(beside) / "cache"
        made.mkdir()
        write_split(made, name, rows.data, stored, tokenizer, progress)
        move(made, folder, rows)
    return Split(folder, rows)


def move(made: Path, folder: Path, rows: SplitRows) -> None:
    """Put a finished cache in its place, unless another process has just put the same one there."""
    try:
        made.rename(folder)
    except OSError:
        try:
            Split(folder, rows)
        except (OSError, ValueError, KeyError, TypeError):
            shutil.rmtree(folder)
            made.rename(folder)


class ArrayWriter:
    """Arrays of plain numbers, each appended to a file of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kinds: dict[str, dict[str, Any]] = {}
        self.ends: dict[str, int] = {}

    def append(self, name: str, values: Any, dtype: DTypeLike = np.int64) -> None:
        """Add values to the end of an array."""
        array = np.asarray(values, dtype=dtype)
        with name_file(self.folder / name):
            # opened for each batch: nothing stays open, or buffered, when a full disk or a signal ends the making
            with (self.folder / name).open("ab") as file:
                file.write(array.tobytes())
        self.kinds.setdefault(name, {"dtype": array.dtype.str, "count": 0})["count"] += len(array)

    def append_lengths(self, name: str, lengths: Sequence[int]) -> None:
        """Go on with an array of offsets, which begins with 0."""
        if name not in self.ends:
            self.ends[name] = 0
            self.append(name, [0])
        offsets = self.ends[name] + np.cumsum(lengths, dtype=np.int64)
        self.append(name, offsets)
        self.ends[name] += sum(lengths)

    def sync(self) -> None:
        """Make sure that all is on disk: a folder that is there must be whole."""
        for name in self.kinds:
            with name_file(self.folder / name), (self.folder / name).open("rb") as file:
                os.fsync(file.fileno())


@contextmanager
def name_file(path: Path) -> Iterator[None]:
    """Name the file that cannot be written: a full disk's own error does not."""
    try:
        yield
    except OSError as error:
        raise RuntimeError(f"{path}: cannot be written: {error.strerror}") from None


def write_split(
    folder: Path,
    name: str,
    data: Dataset,
    stored: StoredFields,
    tokenizer: Tokenizer | None,
    progress: Progress | None,
) -> None:
    """Tokenise the rows of a split in batches.

    Raises:
        ValueError: a column is missing, or every document is empty.
    """
    for field in stored.columns:
        refuse_unknown(field, data.column_names, "column", name)
    data = data.select_columns([*stored.columns, *({LABEL} & set(data.column_names))])
    writer = ArrayWriter(folder)
    documents = 0
    for start in range(0, len(data), ROWS):
        documents += write_batch(writer, data[start : start + ROWS], start, stored, tokenizer)
        if progress is not None:
            progress(name, min(start + ROWS, len(data)), len(data))
    writer.sync()
    skipped = len(data) - documents
    if documents == 0:
        raise ValueError(f"{name}: no usable rows: each of {len(data):,} is empty")
    if skipped:
        logger.warning("%s: %s of %s rows are empty and left out", name, f"{skipped:,}", f"{len(data):,}")
    index = {"fields": stored.columns, "arrays": writer.kinds, "skipped": skipped}
    with name_file(folder / INDEX):
        (folder / INDEX).write_text(json.dumps(index), "utf-8")


def write_batch(
    writer: ArrayWriter, batch: Mapping[str, list[Any]], start: int, stored: StoredFields, tokenizer: Tokenizer | None
) -> int:
    """Tokenise some rows; returns how many were kept because no field of theirs is empty."""
    fields = stored.names
    units = {field: units_of(field, batch[field], stored, tokenizer) for field in fields}
    kept = [row for row in range(len(batch[fields[0]])) if all(any(map(len, units[field][row])) for field in fields)]
    for field in fields:
        lengths = [len(ids) for row in kept for ids in units[field][row]]
        writer.append_lengths(f"{field}.offsets", lengths)
        flat = [ids for row in kept for ids in units[field][row]]
        small = field != PICTURE and tokenizer is not None and tokenizer.vocab_size <= 1 << 16
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
        writer.append("labels", [batch[LABEL][row] for row in kept])
    predicted = {field: texts_of(batch[field]) for field in stored.predicted}
    writer.append("bytes", [sum(len(texts[row].encode()) for texts in predicted.values()) for row in kept])
    writer.append("rows", [start + row for row in kept])
    return len(kept)


def texts_of(values: Sequence[Any]) -> list[str]:
    """The text of each row; of several references the first."""
    return [value[0] if isinstance(value, list) else value for value in values]


def units_of(
    field: str, values: Sequence[Any], stored: StoredFields, tokenizer: Tokenizer | None
) -> Sequence[Sequence[Ids]]:
    """The ids of each row's units; a row without a token has none, or empty ones."""
    if field == PICTURE:  # a picture's number stands for it
        return [[np.array([number])] for number in values]
    assert tokenizer is not None, "texts are tokenised"
    if field in stored.words:
        return place_words(tokenizer, values)
    if field in stored.lists:
        flat = iter(tokenizer.encode([text for texts in values for text in texts]))
        return [[next(flat) for _ in texts] for texts in values]
    split = splitter(stored.language) if stored.sentences else lambda document: [document]
    return list(encode(texts_of(values), split, tokenizer))


def numbers_of(
    batch: Mapping[str, list[Any]], stored: StoredFields, tokenizer: Tokenizer | None
) -> dict[str, list[Sequence[int]]]:
    """By column, each row's numbers; of answers the tokens that they begin and end with."""
    found = {column: batch[column] for column in stored.numbers}
    for column, field in stored.answers:
        assert tokenizer is not None, "answers stand in a text"
        placed = place_tokens(tokenizer, texts_of(batch[field]))
        found[column] = [
            [place for text, begin in zip(given["text"], given["start"], strict=True)
             for place in tokens_of(tokens, begin, begin + len(text))]
            for given, tokens in zip(batch[column], placed, strict=True)
        ]  # fmt: skip
    return found


def encode(
    documents: Sequence[str], split: Callable[[str], list[str]], tokenizer: Tokenizer
) -> Iterator[list[NDArray[np.int64]]]:
    """The ids of each document's units; units without a token are left out."""
    units = [split(document) if document.strip() else [] for document in documents]
    texts = [unit for document in units for unit in document]
    encoded = (ids for start in range(0, len(texts), BATCH) for ids in tokenizer.encode(texts[start : start + BATCH]))
    for document in units:
        ids = [next(encoded) for _ in document]
        yield [unit for unit in ids if len(unit)]
