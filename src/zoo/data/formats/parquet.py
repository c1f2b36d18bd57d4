"""Parquet files."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pyarrow
from pyarrow import parquet

from zoo.data.formats.format import FileFormat, ReadOptions, Row, formats
from zoo.data.formats.lines import LineRange

ROWS = 250  # rows that are in memory at once


@formats.register("parquet")
class Parquet(FileFormat):
    """Columns of a table, some rows at a time."""

    extensions: ClassVar[tuple[str, ...]] = (".parquet",)

    def rows(self, stretch: LineRange, options: ReadOptions, wanted: Collection[str] | None = None) -> Iterator[Row]:
        with explain(stretch.path), parquet.ParquetFile(stretch.path) as table:
            names = None if wanted is None else [name for name in table.schema_arrow.names if name in wanted]
            for batch in table.iter_batches(ROWS, columns=names):
                yield from batch.to_pylist()

    def columns(self, path: Path, options: ReadOptions) -> list[str]:
        with explain(path), parquet.ParquetFile(path) as table:
            return list(table.schema_arrow.names)


@contextmanager
def explain(path: Path) -> Iterator[None]:
    """Name the file that is not a table, or a damaged one."""
    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path}: not a readable parquet file: {error}") from None
