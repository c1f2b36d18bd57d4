"""Tables whose fields are apart by commas."""

from pathlib import Path
from typing import ClassVar

from datasets import Dataset

from zoo.data.formats.delimited import delimited
from zoo.data.formats.format import FileFormat, ReadOptions, collect, formats
from zoo.data.sources.columns import Columns


@formats.register("csv")
class CommaSeparated(FileFormat):
    """Fields apart by commas; double quotes hold a field together."""

    extensions: ClassVar[tuple[str, ...]] = (".csv",)

    def read(self, path: Path, options: ReadOptions, columns: Columns) -> Dataset:
        return collect(delimited(path, options, ",", options.quoting or "csv"), columns, str(path))
