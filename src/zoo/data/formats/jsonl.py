"""One JSON object a line."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from datasets import Dataset

from zoo.data.formats.format import FileFormat, ReadOptions, Row, collect, formats
from zoo.data.formats.lines import read_lines
from zoo.data.sources.columns import Columns
from zoo.strict_json import parse_json


@formats.register("jsonl")
class JsonLines(FileFormat):
    """One JSON object a line; blank lines are no rows."""

    extensions: ClassVar[tuple[str, ...]] = (".jsonl", ".json", ".ndjson")

    def read(self, path: Path, options: ReadOptions, columns: Columns) -> Dataset:
        return collect(json_rows(path), columns, str(path))


def json_rows(path: Path) -> Iterator[Row]:
    """One JSON object a line; blank lines are no rows.

    Raises:
        ValueError: a line is not JSON, not an object, repeats a key or holds NaN or an infinity.
    """
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        yield parse_json(line, f"{path}: line {number}")
