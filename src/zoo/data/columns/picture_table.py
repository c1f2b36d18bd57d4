"""Image columns opened with `datasets`; a separate module, since importing that takes a second."""

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset, Image, load_dataset

from zoo.data.columns.pictures import Pictures
from zoo.data.ids import PICTURE


def of_rows(values: Sequence[Any], folder: Path | None, place: str) -> Pictures:
    """The images that rows hold or name; as `of_table`."""
    try:
        table = Dataset.from_dict({PICTURE: values})
    except (TypeError, ValueError) as error:  # values of several types
        raise refusal(place, str(error)) from error
    return of_table(table, folder, place)


def of_parquet(path: Path, digest: str, column: str, folder: Path | None, place: str) -> Pictures:
    """The images in a column of a Parquet file; as `of_table`.

    Args:
        digest: of the file's bytes: `datasets` would otherwise reuse its cache for another file with this path and
            time.
    """
    # memory-mapped by `datasets`: Parquet itself would decode a whole row group for one image
    files = glob.escape(str(path))
    table = load_dataset("parquet", digest[:32], data_files=files, split="train").select_columns([column])
    return of_table(table.rename_column(column, PICTURE) if column != PICTURE else table, folder, place)


def of_table(table: Dataset, folder: Path | None, place: str) -> Pictures:
    """The images in a table's column.

    Args:
        folder: the folder of files with relative paths; None: only bytes are read.
        place: the location of the table, for messages.

    Raises:
        ValueError: the column holds anything but bytes, paths of files, or `datasets`' map of both.
    """
    try:
        return Pictures(table.cast_column(PICTURE, Image(decode=False)), folder, place)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise refusal(place, f"got {table.features[PICTURE]}") from error


def refusal(place: str, found: str) -> ValueError:
    """The error for a column that holds no images."""
    return ValueError(f"{place}: the column read as '{PICTURE}' must hold bytes or paths of images, {found}")
