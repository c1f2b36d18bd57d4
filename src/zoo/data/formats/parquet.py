"""Parquet files."""

from pathlib import Path
from typing import ClassVar

from datasets import Dataset, load_dataset
from datasets.exceptions import DatasetGenerationError

from zoo.data.formats.format import FileFormat, ReadOptions, formats
from zoo.data.sources.columns import Columns


@formats.register("parquet")
class Parquet(FileFormat):
    """Columns that stay on disk, mapped into memory."""

    extensions: ClassVar[tuple[str, ...]] = (".parquet",)

    def read(self, path: Path, options: ReadOptions, columns: Columns) -> Dataset:
        try:
            data = load_dataset("parquet", data_files=str(path), split="train")
        except (DatasetGenerationError, ValueError, OSError) as error:
            raise ValueError(f"{path}: not a readable parquet file: {error.__cause__ or error}") from None
        return columns.pick(data, str(path))
