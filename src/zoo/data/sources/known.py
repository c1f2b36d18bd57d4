"""What is known of a source without opening it: remembered by the file's path, size, times and inode, as git does."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from zoo.data.formats.compression import DAMAGE, is_compressed, open_bytes, reason
from zoo.data.formats.lines import LineRange
from zoo.data.home import home, name_for, replace_file
from zoo.data.sealed import read_sealed, seal

VERSION = 1  # raise it where the same key stands for something else
PART = 1 << 28  # bytes of a plain file that become one shard
PIECE = 1 << 20  # bytes that are hashed at once
PACKED = 320  # bytes that a compressed file may have that holds nothing: its own name among them
BLANK, HEADER = 16, 4096  # bytes of a plain file; of a table
YOUNG = 2.0  # seconds; a file that is younger may change again without a change of its time


@contextmanager
def name_source(path: Path) -> Iterator[None]:
    """Name the file of a source that cannot be opened: it has gone since it was found, or nobody may read it."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"{path}: the file cannot be read: {reason(error)}") from None


class Stat(NamedTuple):
    """What changes when a file does."""

    size: int
    mtime_ns: int
    ctime_ns: int  # no program can put it back, as some that copy or unpack do the other
    inode: int

    @classmethod
    def of(cls, path: Path) -> "Stat":
        with name_source(path):
            found = path.stat()
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)

    @property
    def is_young(self) -> bool:
        return abs(time.time() - self.mtime_ns / 1e9) < YOUNG


class KnownRange(NamedTuple):
    """Lines of a file, and the SHA-256 of their bytes as they are stored.

    Args:
        stat: of the file before its bytes were hashed: whoever reads them later can see whether they are others by now.
    """

    stretch: LineRange
    digest: str
    stat: Stat


def remember(key: Sequence[Any], make: Callable[[], Any]) -> Any:
    """What `make` finds for a key, asked once; both are plain lists, maps, texts and numbers."""
    decided = json.dumps([VERSION, *key], sort_keys=True)
    place = home() / "known" / f"{name_for([VERSION, *key])}.json"
    try:
        found, value = read_sealed(place)
        if found == decided:
            return value
    except (OSError, ValueError, TypeError):
        pass
    value = make()
    # found out each time: in a store that others may only read, and where it is of a type of Parquet's own
    with suppress(RuntimeError, TypeError):
        replace_file(place, seal([decided, value]))
    return value


def remember_file(what: str, path: Path, stat: Stat, how: Any, make: Callable[[], Any]) -> Any:
    """What `make` finds in a file, asked once as long as it has this `stat`; a young file is looked at each time.

    Args:
        what: is found; `how` decides it beside the file.
    """
    return make() if stat.is_young else remember([what, str(path.absolute()), *stat, how], make)


def known_stretches(path: Path, cut: bool) -> list[KnownRange]:
    """A file in stretches with their hashes; a file that has not changed since is not opened.

    Args:
        cut: whether it may be cut at line ends: then what is written behind a long file leaves its first stretches.
    """
    stat, size = Stat.of(path), PART if cut else None

    def make() -> list[list[Any]]:
        return [[*each.stretch[1:], each.digest] for each in hash_stretches(path, size)]

    found = remember_file("stretches", path, stat, size, make)
    return [KnownRange(LineRange(path, start, stop, line), digest, stat) for start, stop, line, digest in found]


def is_empty(path: Path, has_header: bool) -> bool:
    """Whether a file holds nothing but white space, behind its header; one that is too large for that is not opened."""
    stat, most = Stat.of(path), HEADER if has_header else BLANK
    if stat.size == 0 or stat.size > (PACKED if is_compressed(path) else most):
        return stat.size == 0

    def look() -> bool:
        try:
            with open_bytes(path) as stream:
                content = stream.read(HEADER + 1).lstrip()
                # whoever reads rows refuses lines that end with \r, and must see them for that
                rows = content.replace(b"\r", b"\n").partition(b"\n")[2] if has_header else content
                return len(content) <= HEADER and not rows.strip()
        except DAMAGE:  # whoever reads its rows says what is wrong
            return False

    return bool(remember_file("empty", path, stat, has_header, look))


def hash_stretches(path: Path, size: int | None) -> list[KnownRange]:
    """A file in stretches of whole lines of about `size` bytes, with their hashes; None: in one."""
    found, stat = list[KnownRange](), Stat.of(path)
    with name_source(path), path.open("rb") as stream:
        if size is None:
            return [KnownRange(LineRange(path), hashlib.file_digest(stream, "sha256").hexdigest(), stat)]
        start, line, left = 0, 1, True
        while left:
            digest, at, lines, ended = hashlib.sha256(), start, 0, True
            while left and (at < start + size or not ended):
                # the line on which the stretch ends is read to its end, a piece at a time
                piece = stream.read(min(PIECE, start + size - at)) if at < start + size else stream.readline(PIECE)
                left, ended = bool(piece), piece.endswith(b"\n")
                digest.update(piece)
                at, lines = at + len(piece), lines + piece.count(b"\n")
            if at > start or not found:
                found.append(KnownRange(LineRange(path, start, at, line), digest.hexdigest(), stat))
            start, line = at, line + lines
    return found
