"""Parts of a split: a file, a range of lines of a large file, or a table; each becomes one shard of the token store."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from zoo.data.columns.pictures import Pictures
from zoo.data.formats.format import FileFormat, ReadOptions, Row, entry_at, format_of, formats
from zoo.data.formats.lines import LineRange, extension
from zoo.data.formats.parquet import Parquet
from zoo.data.sources.file_cache import HashedRange, Stat, hashed_ranges, remember_file
from zoo.lazy_import import import_object

Rows = Iterator[Row]
# loaded only when images are read: importing datasets takes a second
PICTURE_TABLE = "zoo.data.columns.picture_table"


class SourcePart(ABC):
    """Consecutive rows of a split.

    Class attributes:
        folder: the folder of files that rows name by a relative path; None: such files are not read.
    """

    folder: Path | None = None

    @property
    def stored_in(self) -> Path | None:
        """The file that holds it (the first, if each column has a file); None if it has no file to itself."""
        return None

    @property
    def is_one_text(self) -> bool:
        """Whether all its rows are pieces of a single long text."""
        return False

    @property
    def size(self) -> int:
        """Its stored size in bytes; 1 if unknown."""
        return 1

    @property
    @abstractmethod
    def place(self) -> str:
        """Its location, for messages."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """A text that changes when its rows may have changed, such as a hash of its file; cheap beside reading them."""

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """The names of its columns."""

    @property
    def classes(self) -> Mapping[str, Sequence[str]]:
        """Column -> the names of the classes 0, 1, ..., for columns that hold such numbers and declare the names."""
        return {}

    @abstractmethod
    def rows(self, wanted: Collection[str]) -> Rows:
        """Yield its rows, with at least the wanted columns.

        Raises:
            ValueError: the stored data cannot be read.
        """

    def where(self, row: int, entry: int | None = None) -> str:
        """The location of a row, from 1, and optionally of an entry of a list in it, for messages."""
        return entry_at(f"{self.place}: row {row}", entry)

    def line(self, row: int, entry: int | None = None) -> str:
        """As `where`, but with the line number for a file of lines; reads the file, so call it only on error."""
        return self.where(row, entry)

    def pictures(self, column: str) -> Pictures:
        """The images of a column, by the index of their row."""
        values = (row[column] for row in self.rows([column]))
        pictures: Pictures = import_object(f"{PICTURE_TABLE}:of_rows")(values, self.folder, self.place)
        return pictures


class FilePart(SourcePart):
    """A data file, or a range of its lines."""

    def __init__(self, known: HashedRange, options: ReadOptions) -> None:
        self.line_range, self.options = known.line_range, options
        self.path, self.of_bytes = known.line_range.path, known.digest
        self.folder = self.path.parent
        self.stat = known.stat

    @property
    def stored_in(self) -> Path:
        return self.path

    @property
    def format(self) -> FileFormat:
        return format_of(self.path, self.options)

    @property
    def is_one_text(self) -> bool:
        return self.format.is_one_text(self.options)

    @property
    def size(self) -> int:
        return (self.stat.size if self.line_range.stop is None else self.line_range.stop) - self.line_range.start

    @property
    def place(self) -> str:
        first = self.line_range.line
        return str(self.path) if first == 1 else f"{self.path} (rows from line {first} on)"

    @property
    def digest(self) -> str:
        # the columns too: only the first range of a table's lines has its header
        version = self.format.version(self.options)
        return " ".join([self.of_bytes, extension(self.path), repr(self.options), *version, *self.columns])

    @cached_property
    def columns(self) -> list[str]:
        def read() -> list[str]:
            return self.format.columns(self.path, self.options)

        return [str(name) for name in remember_file("columns", self.path, self.stat, repr(self.options), read)]

    @cached_property
    def classes(self) -> Mapping[str, Sequence[str]]:
        if not isinstance(self.format, Parquet):
            return {}
        read = partial(self.format.classes, self.path)
        found: Mapping[str, Sequence[str]] = remember_file("class names", self.path, self.stat, None, read)
        return found

    def line(self, row: int, entry: int | None = None) -> str:
        refuse_changed({self.path: self.stat})  # a file that changed may not have this row
        return self.format.where(self.line_range, self.options, row, entry) or self.where(row, entry)

    def rows(self, wanted: Collection[str]) -> Rows:
        with check_unchanged({self.path: self.stat}):
            yield from self.format.rows(self.line_range, self.options, wanted)

    def pictures(self, column: str) -> Pictures:
        if not isinstance(self.format, Parquet):
            return super().pictures(column)
        of_parquet = import_object(f"{PICTURE_TABLE}:of_parquet")
        with check_unchanged({self.path: self.stat}):  # texts and labels are those of the file that was hashed
            opened: Pictures = of_parquet(self.path, self.of_bytes, column, self.folder, self.place)
        return opened


class ColumnFiles(SourcePart):
    """Parallel text files, one for each column: line n of every file is row n."""

    def __init__(self, paths: Mapping[str, Path], options: ReadOptions, setting: str) -> None:
        self.paths, self.options, self.setting = paths, options, setting
        known = {name: hashed_ranges(path, cut=False)[0] for name, path in paths.items()}
        self.known = {name: one.digest for name, one in known.items()}
        self.stats = {one.line_range.path: one.stat for one in known.values()}

    @property
    def stored_in(self) -> Path:
        return next(iter(self.paths.values()))

    @property
    def size(self) -> int:
        return sum(stat.size for stat in self.stats.values())

    @property
    def place(self) -> str:
        return " and ".join(map(str, self.paths.values()))

    @property
    def digest(self) -> str:
        named = [f"{name} {extension(self.paths[name])} {digest}" for name, digest in sorted(self.known.items())]
        return " ".join([*named, repr(self.options)])

    @property
    def columns(self) -> list[str]:
        return list(self.paths)

    def rows(self, wanted: Collection[str]) -> Rows:
        with check_unchanged(self.stats):
            yield from self.joined()

    def joined(self) -> Rows:
        """Yield the rows: the same line of every file.

        Raises:
            ValueError: a file is too long for one row, or the files have different numbers of rows.
        """
        text = formats.build("text")
        counts = dict.fromkeys(self.paths, 0)
        for row in zip_longest(*(text.rows(LineRange(path), self.options) for path in self.paths.values())):
            for name, value in zip(self.paths, row, strict=True):
                counts[name] += value is not None
            if self.options.documents == "file" and max(counts.values()) > 1:
                raise ValueError(
                    f"{self.place}: too long for one row; write one row per line, or set 'documents: line'"
                )
            if len(set(counts.values())) == 1:
                yield {name: value["text"] for name, value in zip(self.paths, row, strict=True)}
        if len(set(counts.values())) > 1:
            found = ", ".join(f"{self.paths[name]} has {count:,}" for name, count in counts.items())
            raise ValueError(f"{self.setting}: the files must have the same number of rows, but {found}")


@contextmanager
def check_unchanged(stats: Mapping[Path, Stat]) -> Iterator[None]:
    """Refuse rows, and errors, that were read from a file which has changed since its hash was taken."""
    try:
        yield
    except ValueError as problem:
        refuse_changed(stats, str(problem))
        raise
    refuse_changed(stats)


def refuse_changed(stats: Mapping[Path, Stat], problem: str = "") -> None:
    """Raise a ValueError if a file has changed since its hash was taken.

    Args:
        problem: an error found in it, perhaps because it changed.
    """
    for path, stat in stats.items():
        if not path.exists():
            raise ValueError(f"{path}: the file was deleted while it was read; put it back and start again")
        if Stat.of(path) != stat:
            where = f" ({problem.removeprefix(f'{path}: ')})" if problem else ""
            raise ValueError(f"{path}: the file changed while it was read{where}; start again when it is complete")


class Table(SourcePart):
    """Rows that are in memory or made by code.

    Args:
        digest: a text that determines them.
        make: returns the columns with their values; called when the rows are read.
    """

    def __init__(self, place: str, digest: str, columns: Sequence[str], make: Callable[[], Mapping[str, Any]]) -> None:
        self.named, self.decided, self.known, self.make = place, digest, list(columns), make

    @property
    def place(self) -> str:
        return self.named

    @property
    def digest(self) -> str:
        return self.decided

    @property
    def columns(self) -> list[str]:
        return self.known

    def rows(self, wanted: Collection[str]) -> Rows:
        made = self.make()
        names = [name for name in self.known if name in wanted]
        return (dict(zip(names, row, strict=True)) for row in zip(*(made[name] for name in names), strict=True))
