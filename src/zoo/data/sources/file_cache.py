"""Facts about source files, cached by path, size, times and inode as git does, so that unchanged files stay closed."""

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

VERSION = 1  # increase it when the same key means something else
PART = 1 << 28  # bytes of an uncompressed file that become one shard
PIECE = 1 << 20  # bytes hashed at once
PACKED = 320  # bytes; the largest compressed file that may be empty, since its header may hold its name
BLANK, HEADER = 16, 4096  # bytes; the largest uncompressed file that may be empty, and the largest with a header
YOUNG = 2.0  # seconds; a file that changed less than this ago may change again without a new mtime


@contextmanager
def name_source(path: Path) -> Iterator[None]:
    """Name the source file in the error if it cannot be opened: it was deleted since it was found, or is unreadable.

    Raises:
        ValueError: it cannot be opened.
    """
    try:
        yield
    except OSError as error:
        raise ValueError(f"{path}: the file cannot be read: {reason(error)}") from None


class Stat(NamedTuple):
    """File metadata that changes when the file does."""

    size: int
    mtime_ns: int
    ctime_ns: int  # programs cannot set it; those that copy or unpack files restore the mtime
    inode: int

    @classmethod
    def of(cls, path: Path) -> "Stat":
        with name_source(path):
            found = path.stat()
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)

    @property
    def is_young(self) -> bool:
        """Whether the file changed so recently that another change might not change its mtime."""
        return abs(time.time() - self.mtime_ns / 1e9) < YOUNG


class HashedRange(NamedTuple):
    """A range of lines of a file, and the SHA-256 of their bytes as they are stored.

    Args:
        stat: of the file before its bytes were hashed, to detect later whether it has changed.
    """

    line_range: LineRange
    digest: str
    stat: Stat


def remember(key: Sequence[Any], make: Callable[[], Any]) -> Any:
    """Return the cached result of `make` for a key, or compute and cache it; both are plain JSON values."""
    decided = json.dumps([VERSION, *key], sort_keys=True)
    place = home() / "known" / f"{name_for([VERSION, *key])}.json"
    try:
        found, value = read_sealed(place)
        if found == decided:
            return value
    except (OSError, ValueError, TypeError):
        pass
    value = make()
    # not cached if the store is read-only, or the value is of a type that JSON lacks, such as a Parquet date
    with suppress(RuntimeError, TypeError):
        replace_file(place, seal([decided, value]))
    return value


def remember_file(what: str, path: Path, stat: Stat, how: Any, make: Callable[[], Any]) -> Any:
    """As `remember`, for a file as long as it has this `stat`; for a file that has just changed, `make` runs each time.

    Args:
        what: names the result.
        how: what decides it, beside the file.
    """
    return make() if stat.is_young else remember([what, str(path.absolute()), *stat, how], make)


def hashed_ranges(path: Path, cut: bool) -> list[HashedRange]:
    """A file in ranges of lines, with their hashes; a file that has not changed since the last call is not opened.

    Args:
        cut: whether it may be cut at line ends; then appending to a long file leaves its first ranges as they are.
    """
    stat, size = Stat.of(path), PART if cut else None

    def make() -> list[list[Any]]:
        return [[*each.line_range[1:], each.digest] for each in hash_ranges(path, size)]

    found = remember_file("stretches", path, stat, size, make)
    return [HashedRange(LineRange(path, start, stop, line), digest, stat) for start, stop, line, digest in found]


def is_empty(path: Path, has_header: bool) -> bool:
    """Whether a file holds nothing but white space after its header; a file too large for that is not opened."""
    stat, most = Stat.of(path), HEADER if has_header else BLANK
    if stat.size == 0 or stat.size > (PACKED if is_compressed(path) else most):
        return stat.size == 0

    def look() -> bool:
        try:
            with open_bytes(path) as stream:
                content = stream.read(HEADER + 1).lstrip()
                # a file whose lines end with \r is not empty: reading its rows must raise the error about line ends
                rows = content.replace(b"\r", b"\n").partition(b"\n")[2] if has_header else content
                return len(content) <= HEADER and not rows.strip()
        except DAMAGE:  # reading its rows raises the error
            return False

    return bool(remember_file("empty", path, stat, has_header, look))


def hash_ranges(path: Path, size: int | None) -> list[HashedRange]:
    """Divide a file into ranges of whole lines of about `size` bytes, with their hashes; None: one range."""
    found, stat = list[HashedRange](), Stat.of(path)
    with name_source(path), path.open("rb") as stream:
        if size is None:
            return [HashedRange(LineRange(path), hashlib.file_digest(stream, "sha256").hexdigest(), stat)]
        start, line, left = 0, 1, True
        while left:
            digest, at, lines, ended = hashlib.sha256(), start, 0, True
            while left and (at < start + size or not ended):
                # the last line of the range is read to its end, a piece at a time
                piece = stream.read(min(PIECE, start + size - at)) if at < start + size else stream.readline(PIECE)
                left, ended = bool(piece), piece.endswith(b"\n")
                digest.update(piece)
                at, lines = at + len(piece), lines + piece.count(b"\n")
            if at > start or not found:
                found.append(HashedRange(LineRange(path, start, at, line), digest.hexdigest(), stat))
            start, line = at, line + lines
    return found
