"""One array of JSON objects, which is the whole file and may span any number of lines."""

from collections.abc import Collection, Iterator
from typing import ClassVar

from zoo.data.formats.format import FileFormat, ReadOptions, Row, entry_at, formats
from zoo.data.formats.json_array import read_array
from zoo.data.formats.lines import LineRange


@formats.register("json")
class JsonArray(FileFormat):
    """An array of JSON objects, read one by one."""

    extensions: ClassVar[tuple[str, ...]] = ()  # none: .json is read as one object per line

    def rows(self, line_range: LineRange, options: ReadOptions, wanted: Collection[str] | None = None) -> Iterator[Row]:
        """Yield every object of the array.

        Raises:
            ValueError: the file is not JSON or not an array, or an entry is not an object.
        """
        for number, entry in enumerate(read_array(line_range.path)):
            if not isinstance(entry, dict):
                raise ValueError(f"{line_range.path}: [{number}]: expected a JSON object, got {entry!r:.80}")
            yield entry

    def where(self, line_range: LineRange, options: ReadOptions, row: int, entry: int | None) -> str | None:
        return entry_at(f"{line_range.path}: [{row - 1}]", entry)
