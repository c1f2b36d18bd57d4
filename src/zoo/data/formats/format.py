"""The contract of file formats, which read a data file row by row; errors name the file and the line."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from zoo.data.formats.lines import LineRange, extension
from zoo.registry import Slot

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
    """Reads the rows of a data file without holding the whole file in memory.

    Class attributes:
        extensions: lowercase extensions of the files that are read in this format unless the task says otherwise.
        heeds: the fields of `ReadOptions`, besides `format`, that it reads files by.
        names_files: whether a row may name a file, such as an image, by a path relative to the folder of its own file.
    """

    extensions: ClassVar[tuple[str, ...]]
    heeds: ClassVar[tuple[str, ...]] = ()
    names_files: ClassVar[bool] = True

    @abstractmethod
    def rows(self, line_range: LineRange, options: ReadOptions, wanted: Collection[str] | None = None) -> Iterator[Row]:
        """Yield the rows of a file or of a range of its lines.

        Args:
            wanted: the columns that will be read; None: all. A format may return more.

        Raises:
            ValueError: the file is not of this format.
        """

    def columns(self, path: Path, options: ReadOptions) -> list[str]:
        """The names of a file's columns, from its first row.

        Raises:
            ValueError: the file is not of this format, or has no row.
        """
        first = next(self.rows(LineRange(path), options), None)
        if first is None:
            raise ValueError(f"{path}: it has no rows")
        return list(first)

    def can_cut_at_lines(self, options: ReadOptions) -> bool:
        """Whether every line end also ends a row, so that ranges of lines can be read independently."""
        return False

    def has_header(self, options: ReadOptions) -> bool:
        """Whether a file's first line names its columns, so that a file of one line has no rows."""
        return False

    def version(self, options: ReadOptions) -> tuple[str, ...]:
        """Part of the digest of what is read; change it when the same bytes are read differently."""
        return ()

    def is_one_text(self, options: ReadOptions) -> bool:
        """Whether all rows of a file are pieces of one long text."""
        return False

    def where(self, line_range: LineRange, options: ReadOptions, row: int, entry: int | None) -> str | None:
        """The location of a row (from 1) or an entry of a list in it, for messages; None: its number says as much."""
        return None


formats: Slot[FileFormat] = Slot("format")


def entry_at(row: str, entry: int | None) -> str:
    """The location of an entry of a list in a row, given the row's; None: the row's own."""
    return row if entry is None else f"{row}, entry {entry}"


def format_name_of(path: Path) -> str | None:
    """The name of the format that reads a file's extension; None if there is none."""
    return next((name for name in formats.names() if extension(path) in formats[name].extensions), None)


def format_of(path: Path, options: ReadOptions) -> FileFormat:
    """The format that the options name, else that of the file's extension, else text."""
    return formats.build(options.format or format_name_of(path) or DEFAULT)
