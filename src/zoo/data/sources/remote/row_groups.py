"""Row groups of a Parquet file on the Hub, read through one open connection."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow
from datasets import Features
from datasets.table import table_cast
from datasets.utils.file_utils import xopen
from pyarrow import parquet

from zoo.data.formats.format import Row
from zoo.data.formats.parquet import rows_at_once


def read_piece(
    address: str, piece: int, pieces: int, columns: Sequence[str], features: Features | None
) -> Iterator[Row]:
    """Yield the rows of a piece of a file.

    `datasets` would open the file again for each row group, and read up to 5 MB too much each time.

    Args:
        piece: the number of the piece, from 0, out of `pieces`.
        features: the column types as `datasets` has them; None: as in the file.
    """
    schema = None if features is None else Features({name: features[name] for name in columns}).arrow_schema
    with xopen(address, "rb") as stream:
        # pre_buffer reads a row group's wanted columns in one request; smaller requests would each read 5 MB more
        table = parquet.ParquetFile(stream, pre_buffer=True, page_checksum_verification=True)
        for group in groups_of(table.num_row_groups, piece, pieces):
            size = rows_at_once(table.metadata.row_group(group), columns)
            for batch in table.iter_batches(size, row_groups=[group], columns=list(columns)):
                yield from as_features(pyarrow.Table.from_batches([batch]), columns, schema)


def groups_of(groups: int, piece: int, pieces: int) -> range:
    """The row groups of a piece; if they cannot be divided equally, the first pieces have one more."""
    each, more = divmod(groups, pieces)
    start = piece * each + min(piece, more)
    return range(start, start + each + (piece < more))


def as_features(table: pyarrow.Table, columns: Sequence[str], schema: pyarrow.Schema | None) -> list[dict[str, Any]]:
    """Rows with values of the types that `datasets` gives the columns, such as numbers for named classes."""
    chosen = table.select(list(columns))
    rows: list[dict[str, Any]] = (chosen if schema is None else table_cast(chosen, schema)).to_pylist()
    return rows
