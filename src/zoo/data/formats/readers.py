"""Data files of each format -> `datasets`, strictly: what is broken is refused by file and line."""

import csv
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import Dataset, concatenate_datasets, load_dataset
from datasets.exceptions import DatasetGenerationError

from zoo.data.formats.lines import LONGEST_LINE, extension, read_lines
from zoo.data.sources.columns import Columns

CHUNK = 10_000
EXTENSIONS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
Row = Mapping[str, Any]


@dataclass(frozen=True)
class ReadOptions:
    """How a data file is read.

    Args:
        format: text, csv, tsv, jsonl or parquet; None: by the file's extension.
        quoting: whether double quotes hold a field together (csv) or are text (none); None: csv for csv, none for tsv.
        header: the names of the columns, where the file's first line does not hold them.
        documents: what is one row of a text file: line, blank_line (paragraphs) or file.
    """

    format: str | None = None
    quoting: str | None = None
    header: tuple[str, ...] | None = None
    documents: str = "line"


def read_table(path: Path, reading: ReadOptions, columns: Columns) -> Dataset:
    """The rows of a data file, its columns named by the objectives' inputs.

    Raises:
        ValueError: the file is not what the reading says, or lacks a column.
    """
    name = reading.format or EXTENSIONS.get(extension(path), "text")
    return FORMATS[name](path, reading, columns)


def collect(rows: Iterator[Row], columns: Columns, place: str) -> Dataset:
    """Rows as a Dataset in memory, made in chunks.

    Raises:
        ValueError: there are no rows, or a row lacks a column or holds another kind of value.
    """
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{place}: it has no rows")
    chosen = columns.choose(list(first), place)
    rows = itertools.chain([first], rows)
    parts: list[Dataset] = []
    while chunk := list(itertools.islice(rows, CHUNK)):
        start = len(parts) * CHUNK + 1
        for number, row in enumerate(chunk, start):
            for column in chosen.values():
                if column not in row:
                    raise ValueError(f"{place}: row {number}: column '{column}' is missing")
        try:
            parts.append(Dataset.from_dict({name: [row[column] for row in chunk] for name, column in chosen.items()}))
        except (ValueError, TypeError, OverflowError) as error:
            last = start + len(chunk) - 1
            raise ValueError(
                f"{place}: rows {start} to {last}: values of different kinds in a column: {error}"
            ) from None
    try:
        return concatenate_datasets(parts)
    except ValueError as error:
        raise ValueError(f"{place}: values of different kinds in a column: {error}") from None


def read_text(path: Path, reading: ReadOptions, columns: Columns) -> Dataset:
    """Rows of one column, `text`: the lines, the paragraphs, or the whole file as it stands."""
    documents = DOCUMENTS[reading.documents](read_lines(path))
    return collect(({"text": text} for text in documents), columns, str(path))


def paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Lines joined up to the next blank one."""
    for filled, group in itertools.groupby(lines, key=lambda line: bool(line.strip())):
        if filled:
            yield "".join(group).removesuffix("\n")


DOCUMENTS: dict[str, Callable[[Iterable[str]], Iterator[str]]] = {
    "line": lambda lines: (line.removesuffix("\n") for line in lines),
    "blank_line": paragraphs,
    "file": lambda lines: iter(["".join(lines)]),
}


def read_csv(path: Path, reading: ReadOptions, columns: Columns) -> Dataset:
    return collect(delimited(path, reading, ",", reading.quoting or "csv"), columns, str(path))


def read_tsv(path: Path, reading: ReadOptions, columns: Columns) -> Dataset:
    return collect(delimited(path, reading, "\t", reading.quoting or "none"), columns, str(path))


def delimited(path: Path, reading: ReadOptions, delimiter: str, quoting: str) -> Iterator[Row]:
    """Rows of a delimited table, every value a text; blank lines are no rows.

    Raises:
        ValueError: a column is named twice, a row is too short or too long, or a quote is not closed.
    """
    rows = QUOTING[quoting](path, delimiter)
    header = reading.header or next(rows, (1, []))[1]
    for name in header:
        if list(header).count(name) > 1:
            raise ValueError(f"{path}: line 1: column '{name}' is named twice")
    for line, row in rows:
        if len(row) != len(header):
            wanted = f"{len(header)} ({', '.join(header)})"
            raise ValueError(f"{path}: line {line}: {len(row)} columns, expected {wanted}; see 'header' and 'quoting'")
        yield dict(zip(header, row, strict=True))


def plain_rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields, where quotes are text."""
    for number, line in enumerate(read_lines(path), 1):
        if line.strip("\n"):
            yield number, line.removesuffix("\n").split(delimiter)


def quoted_rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Number of the first line and fields, where quotes hold a field together."""
    csv.field_size_limit(LONGEST_LINE)  # the default refuses documents of over 131,072 characters
    reader = csv.reader(read_lines(path), delimiter=delimiter, strict=True)
    start = 1
    try:
        for row in reader:
            if row:
                yield start, row
            start = reader.line_num + 1
    except csv.Error as error:
        reason = "a quote opens here and is never closed" if "end of data" in str(error) else str(error)
        raise ValueError(f"{path}: line {start}: {reason}; 'quoting: none' takes quotes as text") from None


QUOTING = {"none": plain_rows, "csv": quoted_rows}


def read_json(path: Path, reading: ReadOptions, columns: Columns) -> Dataset:
    return collect(json_rows(path), columns, str(path))


def json_rows(path: Path) -> Iterator[Row]:
    """One JSON object a line; blank lines are no rows.

    Raises:
        ValueError: a line is not JSON, not an object, repeats a key or holds NaN.
    """
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=unique, parse_constant=refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: line {number}: not JSON: {error}") from None
        if not isinstance(row, dict):
            raise ValueError(f"{path}: line {number}: expected one JSON object a line, got {line.strip()[:40]!r}")
        yield row


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, no key of which is repeated."""
    row = dict(pairs)
    if len(row) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key '{next(n for n in names if names.count(n) > 1)}' is written twice")
    return row


def refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def read_parquet(path: Path, reading: ReadOptions, columns: Columns) -> Dataset:
    """Rows of a parquet file, memory-mapped."""
    try:
        data = load_dataset("parquet", data_files=str(path), split="train")
    except (DatasetGenerationError, ValueError, OSError) as error:
        raise ValueError(f"{path}: not a readable parquet file: {error.__cause__ or error}") from None
    return columns.pick(data, str(path))


FORMATS: dict[str, Callable[[Path, ReadOptions, Columns], Dataset]] = {
    "text": read_text,
    "csv": read_csv,
    "tsv": read_tsv,
    "jsonl": read_json,
    "parquet": read_parquet,
}
