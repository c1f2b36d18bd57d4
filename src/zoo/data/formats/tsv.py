"""Tables whose fields are apart by tabs."""

from pathlib import Path
from typing import ClassVar

from datasets import Dataset

from zoo.data.formats.delimited import delimited
from zoo.data.formats.format import FileFormat, ReadOptions, collect, formats
from zoo.data.sources.columns import Columns


@formats.register("tsv")
class TabSeparated(FileFormat):
    """Fields apart by tabs; quotes are text."""

    extensions: ClassVar[tuple[str, ...]] = (".tsv",)

    def read(self, path: Path, options: ReadOptions, columns: Columns) -> Dataset:
        return collect(delimited(path, options, "\t", options.quoting or "none"), columns, str(path))
