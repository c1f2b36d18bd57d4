"""Parquet files."""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import ClassVar

import pyarrow
from pyarrow import parquet

from zoo.data.formats.class_features import class_features
from zoo.data.formats.format import FileFormat, ReadOptions, Row, formats
from zoo.data.formats.lines import LineRange
from zoo.disk import refuse_pointer

ROWS = 250  # rows in memory at once
BUFFER = 1 << 20  # bytes of a column read from the disk at once
BYTES = 1 << 26  # in memory at once: fewer rows are read if they are larger on average


@formats.register("parquet")
class Parquet(FileFormat):
    """Columns of a table, some rows at a time."""

    extensions: ClassVar[tuple[str, ...]] = (".parquet",)

    def rows(self, line_range: LineRange, options: ReadOptions, wanted: Collection[str] | None = None) -> Iterator[Row]:
        with explain(line_range.path), open_table(line_range.path) as table:
            names = [name for name in table.schema_arrow.names if wanted is None or name in wanted]
            count = 0
            for group in range(table.num_row_groups):
                size = rows_at_once(table.metadata.row_group(group), names)
                for batch in table.iter_batches(size, row_groups=[group], columns=names):
                    yield from values_of(batch, line_range.path, count)
                    count += batch.num_rows

    def columns(self, path: Path, options: ReadOptions) -> list[str]:
        with explain(path), open_table(path) as table:
            names = list(table.schema_arrow.names)
        for name, count in Counter(names).items():
            if count > 1:
                raise ValueError(f"{path}: column '{name}' is named twice")
        return names

    def classes(self, path: Path) -> dict[str, list[str]]:
        """As `class_features`, for a file."""
        with explain(path), open_table(path) as table:
            return class_features(table.schema_arrow)


def open_table(path: Path) -> parquet.ParquetFile:
    """Open a file with a read buffer; without one, a whole row group would be in memory, compressed.

    Page checksums are verified, though few writers add them.

    Raises:
        ValueError: it is a Git LFS pointer.
    """
    refuse_pointer(path)
    return parquet.ParquetFile(path, buffer_size=BUFFER, page_checksum_verification=True)


def rows_at_once(group: parquet.RowGroupMetaData, names: Collection[str]) -> int:
    """The number of rows of a row group to read together, from the mean size of their wanted columns."""
    chunks = [group.column(number) for number in range(group.num_columns)]
    size: int = sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema.split(".")[0] in names)
    return max(1, min(ROWS, BYTES * int(group.num_rows) // max(1, size)))


def values_of(batch: pyarrow.RecordBatch, path: Path, before: int) -> list[Row]:
    """The rows of a batch as Python values.

    Args:
        before: the number of rows before it.

    Raises:
        ValueError: Python has no value for one, such as a date beyond the year 9999 or a text that is not UTF-8.
    """
    try:
        rows: list[Row] = batch.to_pylist()
        return rows
    except (ValueError, OverflowError):  # again, value by value, for the message
        for number, name in product(range(batch.num_rows), batch.schema.names):
            try:
                batch.column(name)[number].as_py()
            except (ValueError, OverflowError) as error:
                place = f"{path}: row {before + number + 1}"
                raise ValueError(f"{place}: the value in column '{name}' cannot be read: {error}") from None
        raise


@contextmanager
def explain(path: Path) -> Iterator[None]:
    """Name the file in the error if it is not a Parquet file, or is damaged.

    Raises:
        ValueError: it is one of these.
    """
    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a readable Parquet file: {error}") from None
