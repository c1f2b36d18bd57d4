"""Sources of thousands of small files: many files share a shard, and one cache file holds what is known of all."""

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from zoo.data.formats.format import FileFormat, ReadOptions, entry_at, format_of
from zoo.data.formats.lines import LineRange, extension
from zoo.data.formats.parquet import Parquet
from zoo.data.home import home, name_for, replace_file
from zoo.data.sealed import read_sealed, seal
from zoo.data.sources.file_cache import VERSION, Stat, hash_ranges
from zoo.data.sources.part import Rows, SourcePart, check_unchanged, refuse_changed
from zoo.wording import counted

MANY = 256  # up to this many files of a split, each has a shard, however small it is
SMALL = 1 << 20  # bytes; if there are more files, those below this size share shards
GROUP = 1 << 26  # bytes; the limit for the files of a shard
ENDS = 128  # on average one file in this many, chosen by its hash, ends a group: so a new file changes one group only


class SmallFile(NamedTuple):
    """A file that shares a shard with others.

    Args:
        digest: the SHA-256 of its bytes.
        classes: as `SourcePart.classes`.
    """

    path: Path
    stat: Stat
    digest: str
    columns: tuple[str, ...]
    classes: Mapping[str, Sequence[str]]


class FileGroup(SourcePart):
    """Small files of one format with the same columns and classes; from one folder, if rows may name files in it."""

    def __init__(self, files: Sequence[SmallFile], options: ReadOptions) -> None:
        self.files, self.options = files, options
        self.folder = files[0].path.parent

    @property
    def format(self) -> FileFormat:
        return format_of(self.files[0].path, self.options)

    @property
    def size(self) -> int:
        return sum(file.stat.size for file in self.files)

    @property
    def place(self) -> str:
        return first_of([file.path for file in self.files])

    @cached_property
    def digest(self) -> str:
        digests = hashlib.sha256(" ".join(file.digest for file in self.files).encode()).hexdigest()
        version = self.format.version(self.options)
        return " ".join([digests, extension(self.files[0].path), repr(self.options), *version, *self.columns])

    @property
    def columns(self) -> list[str]:
        return list(self.files[0].columns)

    @property
    def classes(self) -> Mapping[str, Sequence[str]]:
        return self.files[0].classes

    def rows(self, wanted: Collection[str]) -> Rows:
        for file in self.files:
            with check_unchanged({file.path: file.stat}):
                yield from self.format.rows(LineRange(file.path), self.options, wanted)

    def find(self, row: int) -> tuple[Path, int]:
        """The file of a row, and the row's number in it, from 1; reads files, so call it only on error."""
        for file in self.files:
            # no further than the row: what follows it may be broken, too
            rows = sum(1 for _ in islice(self.format.rows(LineRange(file.path), self.options), row))
            if rows == row:
                break
            row -= rows
        return file.path, row

    def where(self, row: int, entry: int | None = None) -> str:
        path, number = self.find(row)
        return entry_at(f"{path}: row {number}", entry)

    def line(self, row: int, entry: int | None = None) -> str:
        refuse_changed({file.path: file.stat for file in self.files})  # a file that changed may not have this row
        path, number = self.find(row)
        return self.format.where(LineRange(path), self.options, number, entry) or self.where(row, entry)


def first_of(paths: Sequence[Path]) -> str:
    """The first path and the number of further ones, for messages."""
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {counted(len(paths) - 1, 'more file')}"


def group_files(
    paths: Sequence[Path], options: ReadOptions, named: str, parts_of: Callable[[Path], Iterable[SourcePart]]
) -> Iterator[SourcePart]:
    """Divide files into parts: if there are many, small files next to each other share a part; any other has its own.

    Args:
        named: the files as the task names them: what is known of them is cached under this name, which a new file
            keeps.
        parts_of: gives the parts of one file.
    """
    if len(paths) <= MANY:
        yield from (part for path in paths for part in parts_of(path))
        return
    stats = {path: Stat.of(path) for path in paths}
    known = read_small_files({path: stat for path, stat in stats.items() if 0 < stat.size < SMALL}, options, named)
    group: list[SmallFile] = []
    size = 0
    for path in paths:
        file = known.get(path)
        size += stats[path].size
        if group and (file is None or size > GROUP or not can_share_part(group[0], file, options)):
            yield FileGroup(group, options)
            group, size = [], stats[path].size
        if file is None:
            yield from parts_of(path)
            continue
        group.append(file)
        if int(file.digest[:8], 16) % ENDS == 0:
            yield FileGroup(group, options)
            group, size = [], 0
    if group:
        yield FileGroup(group, options)


def can_share_part(one: SmallFile, other: SmallFile, options: ReadOptions) -> bool:
    """Whether two files can share a part."""
    if (one.columns, one.classes, extension(one.path)) != (other.columns, other.classes, extension(other.path)):
        return False
    return one.path.parent == other.path.parent or not format_of(one.path, options).names_files


def read_small_files(stats: dict[Path, Stat], options: ReadOptions, named: str) -> dict[Path, SmallFile]:
    """The digest, columns and classes of each file; files that have not changed since the last call are not opened.

    Raises:
        ValueError: a file is not of its format.
    """
    place = home() / "known" / f"files-{name_for([VERSION, 'classes', named, repr(options)])}.json"
    try:
        before = read_sealed(place)
    except (OSError, ValueError):
        before = {}
    found: dict[Path, SmallFile] = {}
    for path, stat in stats.items():
        kept = before.get(os.path.abspath(path))
        if kept is not None and kept[0] == list(stat) and not stat.is_young:
            found[path] = SmallFile(path, stat, kept[1], tuple(kept[2]), kept[3])
            continue
        read_by = format_of(path, options)
        columns = tuple(read_by.columns(path, options))
        classes = read_by.classes(path) if isinstance(read_by, Parquet) else {}
        found[path] = SmallFile(path, stat, hash_ranges(path, None)[0].digest, columns, classes)
    now = {
        os.path.abspath(path): [list(each.stat), each.digest, list(each.columns), each.classes]
        for path, each in found.items()
    }
    if now != before:
        with suppress(RuntimeError):  # in a read-only store the files are read each time
            replace_file(place, seal(now))
    return found
