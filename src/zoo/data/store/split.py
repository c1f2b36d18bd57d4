"""One tokenised split on disk: flat ids, where each unit begins, labels, bytes."""

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray

from zoo.data.ids import PICTURE, Ids, Lengths, Piece, Read
from zoo.data.sources.rows import SplitRows

INDEX = "index.json"


class Split:
    """A split as training and evaluation read it; opened, its ids stay on disk.

    Args:
        folder: holds `index.json` and one file of plain numbers for each array.
        rows: the rows that it was made from.
    """

    def __init__(self, folder: Path, rows: SplitRows) -> None:
        self.source = rows
        index = read_index(folder)
        arrays = {name: map_array(folder / name, kind) for name, kind in index["arrays"].items()}
        fields: list[str] = index["fields"]
        self.ids: dict[str, NDArray[Any]] = {field: arrays[f"{field}.ids"] for field in fields}
        self.bytes: NDArray[np.int64] = arrays["bytes"]
        self.kept: NDArray[np.int64] = arrays["rows"]
        self.skipped: int = index["skipped"]
        self.lengths = Lengths(
            {field: arrays[f"{field}.offsets"] for field in fields},
            arrays["sentences"] if "sentences" in arrays else None,
            arrays["labels"] if "labels" in arrays else None,
            {field: arrays[f"{field}.units"] for field in fields if f"{field}.units" in arrays},
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes in the order of their numbers."""
        return self.source.labels

    @cached_property
    def rows(self) -> Dataset:
        """The rows that the documents were made from, one a document: references are read here."""
        data = self.source.data
        return data if len(self.kept) == len(data) else data.select(self.kept)

    def read(self, piece: Piece) -> Ids:
        """The token ids of a piece, or a column's numbers; of a picture its number."""
        return self.ids[piece.field][piece.start : piece.stop].astype(np.int64)

    def reader(self, image_size: int | None) -> Read:
        """What reads the pieces of examples: token ids, and pictures as bytes.

        Args:
            image_size: side of the pictures (pixels); None: nobody asks for one.
        """
        if image_size is None:
            return self.read
        size = image_size

        def read(piece: Piece) -> NDArray[Any]:
            ids = self.read(piece)
            return self.source.pictures.read(int(ids[0]), size) if piece.field == PICTURE else ids

        return read


def read_index(folder: Path) -> dict[str, Any]:
    """What the folder says it holds.

    Raises:
        OSError, ValueError: there is none, or it is not what was written.
    """
    index = json.loads((folder / INDEX).read_text("utf-8"))
    if not isinstance(index, dict) or not {"arrays", "fields", "skipped"} <= set(index):
        raise ValueError(f"{folder / INDEX}: a key is missing")
    return index


def map_array(path: Path, kind: Mapping[str, Any]) -> NDArray[Any]:
    """An array of plain numbers, memory-mapped.

    Raises:
        OSError, ValueError: the file is missing or has another size than was written.
    """
    dtype, count = np.dtype(kind["dtype"]), int(kind["count"])
    if path.stat().st_size != dtype.itemsize * count:
        raise ValueError(f"{path}: {path.stat().st_size} bytes, expected {dtype.itemsize * count}")
    return np.memmap(path, dtype=dtype, mode="r", shape=(count,))
