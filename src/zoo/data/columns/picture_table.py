"""Image columns opened with `datasets`; a separate module, since importing that takes a second."""

import glob
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow
from datasets import Dataset, Image, Value, load_dataset

from zoo.data.columns.pictures import Pictures, bytes_or_path
from zoo.data.ids import PICTURE

VIEW = "_view"  # Arrow's binary_view and string_view, as some programs write columns
BATCH = 250  # rows that `datasets` copies into its cache at once


def of_rows(values: Iterable[Any], folder: Path | None, place: str) -> Pictures:
    """The images that rows hold or name; as `of_table`."""
    stored, paths = list[bytes | None](), list[str | None]()  # of a million paths, maps would take 250 MB more
    for number, value in enumerate(values, 1):
        try:
            content, path = bytes_or_path(value)
        except ValueError as problem:
            raise ValueError(f"{place}: row {number}: {problem}") from None
        stored.append(content)
        paths.append(path)
    arrays = [pyarrow.array(stored, pyarrow.large_binary()), pyarrow.array(paths, pyarrow.string())]
    column = pyarrow.StructArray.from_arrays(arrays, ["bytes", "path"])
    return of_table(Dataset.from_dict({PICTURE: column}), folder, place)


def as_map(value: Any) -> dict[str, Any] | None:
    """A row's image in one form: a map of its bytes or of its path, never of both; None if the row holds no image.

    Of both, `datasets` drops the bytes if the path is that of a file in the working directory.

    Raises:
        ValueError: the value is neither bytes nor a path nor a map of both.
    """
    stored, path = bytes_or_path(value)
    return {"bytes": stored, "path": path} if stored or path else None


def of_parquet(path: Path, digest: str, column: str, folder: Path | None, place: str) -> Pictures:
    """The images in a column of a Parquet file; as `of_table`.

    Args:
        digest: of the file's bytes: `datasets` would otherwise reuse its cache for another file with this path and
            time.
    """
    # memory-mapped by `datasets`: Parquet itself would decode a whole row group for one image
    files = glob.escape(str(path))
    try:
        # batch_size: by default as many rows as the first row group has, which may be none
        table = load_dataset("parquet", digest[:32], data_files=files, split="train", batch_size=BATCH)
    except (ValueError, FileNotFoundError) as error:  # the latter for some names, such as `a::b`
        raise ValueError(f"{place}: its images cannot be read with datasets: {error}") from error
    table = table.select_columns([column])
    return of_table(table.rename_column(column, PICTURE) if column != PICTURE else table, folder, place)


def of_table(table: Dataset, folder: Path | None, place: str) -> Pictures:
    """The images in a table's column.

    Args:
        folder: the folder of files with relative paths; None: only bytes are read.
        place: the location of the table, for messages.

    Raises:
        ValueError: the column holds anything but bytes, paths of files, or `datasets`' map of both.
    """
    kind = table.features[PICTURE]
    if isinstance(kind, Value) and kind.dtype.endswith(VIEW):  # which `Image` does not know
        table = table.cast_column(PICTURE, Value(f"large_{kind.dtype.removesuffix(VIEW)}"))
    try:
        return Pictures(table.cast_column(PICTURE, Image(decode=False)), folder, place)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise ValueError(
            f"{place}: the column read as '{PICTURE}' must hold bytes or paths of images, got {kind}"
        ) from error
