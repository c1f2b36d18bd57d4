"""Columns of pictures opened with `datasets`; a module of its own, since importing that takes a second."""

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset, Image, load_dataset

from zoo.data.columns.pictures import Pictures
from zoo.data.ids import PICTURE


def of_rows(values: Sequence[Any], folder: Path | None, place: str) -> Pictures:
    """The pictures that rows hold or name; as `of_table`."""
    try:
        table = Dataset.from_dict({PICTURE: values})
    except (TypeError, ValueError) as error:  # values of several types
        raise refusal(place, str(error)) from error
    return of_table(table, folder, place)


def of_parquet(path: Path, digest: str, column: str, folder: Path | None, place: str) -> Pictures:
    """The pictures in a column of a Parquet file; as `of_table`.

    Args:
        digest: of its bytes: `datasets` alone takes a file with the path and time of an older one for that one.
    """
    # mapped into memory: a picture of a row group would be decoded with all others of it
    files = glob.escape(str(path))
    table = load_dataset("parquet", digest[:32], data_files=files, split="train").select_columns([column])
    return of_table(table.rename_column(column, PICTURE) if column != PICTURE else table, folder, place)


def of_table(table: Dataset, folder: Path | None, place: str) -> Pictures:
    """The pictures in a table's column.

    Args:
        folder: where files with relative paths lie; None: only bytes are read.
        place: where the table stands, for messages.

    Raises:
        ValueError: the column holds anything but bytes, paths of files, or `datasets`' map of both.
    """
    try:
        return Pictures(table.cast_column(PICTURE, Image(decode=False)), folder, place)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise refusal(place, f"got {table.features[PICTURE]}") from error


def refusal(place: str, found: str) -> ValueError:
    return ValueError(f"{place}: the column read as '{PICTURE}' must hold bytes or paths of images, {found}")
