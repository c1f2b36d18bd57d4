"""Some row groups of a Parquet file on the Hub, through one open connection."""

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
    """The rows of a piece; `datasets` would open the file for each row group, and read up to 5 MB too much each time.

    Args:
        piece: the number of the piece, from 0, of so many `pieces` of the file.
        features: what `datasets` takes the columns for; None: what they are in the file.
    """
    schema = None if features is None else Features({name: features[name] for name in columns}).arrow_schema
    with xopen(address, "rb") as stream:
        # the wanted columns of a row group in one request: smaller ones, in turn, would each ask for 5 MB more
        table = parquet.ParquetFile(stream, pre_buffer=True, page_checksum_verification=True)
        for group in groups_of(table.num_row_groups, piece, pieces):
            size = rows_at_once(table.metadata.row_group(group), columns)
            for batch in table.iter_batches(size, row_groups=[group], columns=list(columns)):
                yield from as_features(pyarrow.Table.from_batches([batch]), columns, schema)


def groups_of(groups: int, piece: int, pieces: int) -> range:
    """The row groups of a piece: the first pieces have one more where they cannot be equally many."""
    each, more = divmod(groups, pieces)
    start = piece * each + min(piece, more)
    return range(start, start + each + (piece < more))


def as_features(table: pyarrow.Table, columns: Sequence[str], schema: pyarrow.Schema | None) -> list[dict[str, Any]]:
    """Rows with the kinds of values that `datasets` gives them, such as the numbers of named classes."""
    chosen = table.select(list(columns))
    rows: list[dict[str, Any]] = (chosen if schema is None else table_cast(chosen, schema)).to_pylist()
    return rows
