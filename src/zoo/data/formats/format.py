"""The contract of file formats: a data file -> `datasets`, strictly; what is broken is refused by file and line."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from datasets import Dataset, concatenate_datasets

from zoo.data.formats.lines import extension
from zoo.data.sources.columns import Columns
from zoo.registry import Slot

CHUNK = 10_000
DEFAULT = "text"  # of files whose extension no format claims
Row = Mapping[str, Any]


@dataclass(frozen=True)
class ReadOptions:
    """How a data file is read.

    Args:
        format: a registered format; None: by the file's extension.
        quoting: whether double quotes hold a field together (csv) or are text (none); None: csv for csv, none for tsv.
        header: the names of the columns, where the file's first line does not hold them.
        documents: what is one row of a text file: line, blank_line (paragraphs) or file.
    """

    format: str | None = None
    quoting: str | None = None
    header: tuple[str, ...] | None = None
    documents: str = "line"


class FileFormat(ABC):
    """How the rows of a data file are read.

    Class attributes:
        extensions: of the files that are read so unless the task says otherwise, in small letters.
    """

    extensions: ClassVar[tuple[str, ...]]

    @abstractmethod
    def read(self, path: Path, options: ReadOptions, columns: Columns) -> Dataset:
        """The rows of a file, its columns named by the inputs.

        Raises:
            ValueError: the file is not of this format, or lacks a column.
        """


formats: Slot[FileFormat] = Slot("format")


def read_table(path: Path, options: ReadOptions, columns: Columns) -> Dataset:
    """The rows of a data file in the format that the options name, else in that of its extension.

    Raises:
        ValueError: the file is not of that format, or lacks a column.
    """
    by_extension = (name for name in formats.names() if extension(path) in formats[name].extensions)
    return formats.build(options.format or next(by_extension, DEFAULT)).read(path, options, columns)


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
