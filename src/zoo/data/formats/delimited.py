"""Tables whose fields are separated by commas or tabs, with or without quotes."""

import csv
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar, NamedTuple

from zoo.data.columns.columns import in_one_column
from zoo.data.formats.format import FileFormat, ReadOptions, Row, formats
from zoo.data.formats.lines import BOM, LONGEST_LINE, LineRange, read_lines, read_stored_lines
from zoo.wording import counted

QUOTES_SOUGHT = 1000  # lines in which misread quotes are looked for
logger = logging.getLogger(__name__)


class Delimited(FileFormat):
    """Fields separated by a delimiter.

    Class attributes:
        delimiter: the character between two fields.
        quoting: how double quotes are read unless the task says otherwise, a key of `QUOTING`.
    """

    heeds: ClassVar[tuple[str, ...]] = ("header", "quoting")
    delimiter: ClassVar[str]
    quoting: ClassVar[str]

    def can_cut_at_lines(self, options: ReadOptions) -> bool:
        return (options.quoting or self.quoting) == "none"

    def has_header(self, options: ReadOptions) -> bool:
        return not options.header

    def version(self, options: ReadOptions) -> tuple[str, ...]:
        return () if self.can_cut_at_lines(options) else ("quoted 2",)

    def rows(self, line_range: LineRange, options: ReadOptions, wanted: Collection[str] | None = None) -> Iterator[Row]:
        """Yield the rows of a table, every value as text; blank lines are skipped.

        Raises:
            ValueError: a column is named twice, a row is too short or too long or repeats the header, a quote is not
                closed, or a CR stands outside quotes.
        """
        path = line_range.path
        header, rows = self.header_and_rows(line_range, options)
        for name, count in Counter(header).items():
            if count > 1:
                raise ValueError(f"{path}: line 1: column '{name}' is named twice")
        names, doubt = list(header), DOUBTS[self.quoting] if options.quoting is None else None
        for line, row in rows:
            if len(row) != len(header):
                found, wanted_row = counted(len(row), "column"), f"{len(header)} ({', '.join(header)})"
                hint = f"see 'header' and 'quoting'{in_one_column(header)}"
                raise ValueError(f"{path}: line {line}: {found}, expected {wanted_row}; {hint}")
            # a list of words may hold the word that names its only column; joined files may each begin with a BOM
            if len(names) > 1 and [row[0].removeprefix(BOM), *row[1:]] == names:
                remedy = "delete the line, or leave out 'header'" if options.header and line == 1 else "delete the line"
                raise ValueError(f"{path}: line {line}: it repeats the names of the columns; {remedy}")
            if doubt and line < QUOTES_SOUGHT and any(map(doubt.holds, row)):
                warn_of_quotes(path, line, doubt.said)
                doubt = None
            yield dict(zip(header, row, strict=True))

    def header_and_rows(
        self, line_range: LineRange, options: ReadOptions
    ) -> tuple[Sequence[str], Iterator[tuple[int, list[str]]]]:
        """The names of the columns, and the line number and fields of each row."""
        read = QUOTING[options.quoting or self.quoting]
        rows = read(line_range, self.delimiter)
        above = rows if line_range.start == 0 else read(LineRange(line_range.path), self.delimiter)
        return options.header or next(above, (1, []))[1], rows

    def where(self, line_range: LineRange, options: ReadOptions, row: int, entry: int | None) -> str | None:
        _, rows = self.header_and_rows(line_range, options)
        line, _ = next(itertools.islice(rows, row - 1, None))
        return f"{line_range.path}: line {line}"


@formats.register("csv")
class CommaSeparated(Delimited):
    """Fields separated by commas; double quotes hold a field together."""

    extensions: ClassVar[tuple[str, ...]] = (".csv",)
    delimiter: ClassVar[str] = ","
    quoting: ClassVar[str] = "csv"


@formats.register("tsv")
class TabSeparated(Delimited):
    """Fields separated by tabs; quotes are text."""

    extensions: ClassVar[tuple[str, ...]] = (".tsv",)
    delimiter: ClassVar[str] = "\t"
    quoting: ClassVar[str] = "none"


def has_doubled_quotes(field: str) -> bool:
    """Whether a field is written as CSV writes one that holds quotes, as in `"a ""quoted"" word"`."""
    if not field.startswith('"') or not field.endswith('"'):
        return False
    inside = field[1:-1]
    count = inside.count('""')
    return count > 0 and count % 2 == 0 and inside.count('"') == 2 * count


def has_quotes_after_space(field: str) -> bool:
    """Whether white space stands before a field in quotes, which are text then, as in `a, "b"`."""
    return field[:1].isspace() and len(field.strip()) > 1 and field.lstrip()[:1] == field[-1:] == '"'


class Doubt(NamedTuple):
    """What a field may be if the task does not set how quotes are read."""

    holds: Callable[[str], bool]
    said: str


DOUBTS = {
    "none": Doubt(
        has_doubled_quotes,
        "a field holds doubled quotes, as in CSV, but zoo reads quotes as text here; "
        "set 'quoting: csv' or 'quoting: none'",
    ),
    "csv": Doubt(
        has_quotes_after_space,
        "a space stands before a quote, so the quotes and the space are text; delete the space, or set 'quoting: csv'",
    ),
}


@cache  # a file is read more than once
def warn_of_quotes(path: Path, line: int, said: str) -> None:
    """Log that a field may have been written in another way than it is read."""
    logger.warning("%s: line %d: %s", path, line, said)


def plain_rows(line_range: LineRange, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and fields; quotes are text."""
    for number, line in enumerate(read_lines(line_range), line_range.line):
        if line.strip("\n"):
            yield number, line.removesuffix("\n").split(delimiter)


def quoted_rows(line_range: LineRange, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line and the fields of each row; quotes hold a field and its line ends together."""
    # the default limit is 131,072 characters, too few for documents; the reader takes four bytes per character
    csv.field_size_limit(LONGEST_LINE // 4)
    reader = csv.reader(read_stored_lines(line_range), delimiter=delimiter, strict=True)
    start = 1
    try:
        for row in reader:
            if row:
                yield start, row
            start = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{line_range.path}: line {start}: {reason_of(error)}") from None


def reason_of(error: csv.Error) -> str:
    """The csv module's error in plain words, with the remedy."""
    if "new-line character" in str(error):
        return "a CR in a field without quotes; quote the field, or end the line with LF or CRLF"
    reason = str(error)
    if "end of data" in reason:
        reason = "a quote opens here and is never closed"
    elif "field limit" in reason:
        reason = f"a field of more than {csv.field_size_limit():,} characters, or a quote that is never closed"
    elif "expected after" in reason:
        reason += " that closes a field; a .csv file needs commas between fields, a .tsv file tabs"
    return f"{reason}; with 'quoting: none', quotes are text"


QUOTING = {"none": plain_rows, "csv": quoted_rows}
