"""One JSON object a line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from datasets import Dataset

from zoo.data.formats.format import FileFormat, ReadOptions, Row, collect, formats
from zoo.data.formats.lines import read_lines
from zoo.data.sources.columns import Columns


@formats.register("jsonl")
class JsonLines(FileFormat):
    """One JSON object a line; blank lines are no rows."""

    extensions: ClassVar[tuple[str, ...]] = (".jsonl", ".json", ".ndjson")

    def read(self, path: Path, options: ReadOptions, columns: Columns) -> Dataset:
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
