"""Tables whose fields are apart by commas or tabs, with quotes or without."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from datasets import Dataset

from zoo.data.formats.format import FileFormat, ReadOptions, Row, collect, formats
from zoo.data.formats.lines import LONGEST_LINE, read_lines
from zoo.data.sources.columns import Columns


@formats.register("csv")
class CommaSeparated(FileFormat):
    """Fields apart by commas; double quotes hold a field together."""

    extensions: ClassVar[tuple[str, ...]] = (".csv",)

    def read(self, path: Path, options: ReadOptions, columns: Columns) -> Dataset:
        return collect(delimited(path, options, ",", options.quoting or "csv"), columns, str(path))


@formats.register("tsv")
class TabSeparated(FileFormat):
    """Fields apart by tabs; quotes are text."""

    extensions: ClassVar[tuple[str, ...]] = (".tsv",)

    def read(self, path: Path, options: ReadOptions, columns: Columns) -> Dataset:
        return collect(delimited(path, options, "\t", options.quoting or "none"), columns, str(path))


def delimited(path: Path, options: ReadOptions, delimiter: str, quoting: str) -> Iterator[Row]:
    """Rows of a delimited table, every value a text; blank lines are no rows.

    Raises:
        ValueError: a column is named twice, a row is too short or too long, or a quote is not closed.
    """
    rows = QUOTING[quoting](path, delimiter)
    header = options.header or next(rows, (1, []))[1]
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
