"""One JSON object per line."""

import itertools
from collections.abc import Collection, Iterator
from typing import ClassVar

from zoo.data.formats.format import FileFormat, ReadOptions, Row, entry_at, formats
from zoo.data.formats.lines import LineRange, read_lines
from zoo.strict_json import parse_json

WHOLE = ("[", "{")  # the first line of a file that is one value over many lines
OTHER = "expected a JSON object per line; set 'format: json' if the file is one array, 'format: squad' if it is SQuAD's"


@formats.register("jsonl")
class JsonLines(FileFormat):
    """One JSON object per line; blank lines are skipped."""

    extensions: ClassVar[tuple[str, ...]] = (".jsonl", ".json", ".ndjson", ".jsonlines", ".jl")

    def can_cut_at_lines(self, options: ReadOptions) -> bool:
        return True

    def where(self, line_range: LineRange, options: ReadOptions, row: int, entry: int | None) -> str | None:
        filled = (number for number, line in enumerate(read_lines(line_range), line_range.line) if not line.isspace())
        return entry_at(f"{line_range.path}: line {next(itertools.islice(filled, row - 1, None))}", entry)

    def rows(self, line_range: LineRange, options: ReadOptions, wanted: Collection[str] | None = None) -> Iterator[Row]:
        """Yield the object of each line.

        Raises:
            ValueError: a line is not JSON, not an object, repeats a key or holds NaN or an infinity.
        """
        for number, line in enumerate(read_lines(line_range), line_range.line):
            if number == 1 and line.strip() in WHOLE or line.startswith("[{"):
                raise ValueError(f"{line_range.path}: line {number}: {OTHER}")
            if not line.isspace():
                yield parse_json(line, f"{line_range.path}: line {number}")
