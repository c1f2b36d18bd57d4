"""A hash of the image files that a table names: the table's own bytes stay the same when an image is replaced."""

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from zoo.data.columns.pictures import named_file
from zoo.data.home import name_for
from zoo.data.sources.file_cache import Stat, remember
from zoo.data.sources.part import SourcePart
from zoo.disk import is_file


def digest_image_files(part: SourcePart, column: str) -> list[str]:
    """A hash of the names and bytes of the files that a column of images names; empty if it names none.

    Files that have not changed since the last call are not opened. A missing file is an error only where it is read.
    """
    if part.folder is None:
        return []
    names = remember(["image files", part.digest, column], partial(names_in, part, column))
    if not names:
        return []
    find, metadata = partial(hash_files, part.folder, names), hashlib.sha256()
    for name in names:  # there may be a million
        stat = stat_of(part.folder / name)
        if stat is not None and stat.is_young:
            return [find()]
        metadata.update(name_for([name, stat]).encode())
    return [str(remember(["bytes of image files", str(part.folder.absolute()), metadata.hexdigest()], find))]


def names_in(part: SourcePart, column: str) -> list[str]:
    """The different files that a column of images names, sorted."""
    return sorted({name for row in part.rows([column]) if (name := named_file(row.get(column))) is not None})


def stat_of(path: Path) -> Stat | None:
    """The metadata of a file; None if it is missing or cannot be read."""
    try:
        return Stat.of(path) if is_file(path) else None
    except (OSError, ValueError):
        return None


def hash_files(folder: Path, names: Sequence[str]) -> str:
    """A hash of the names and bytes of files."""
    total = hashlib.sha256()
    for name in names:
        try:
            content = (folder / name).read_bytes() if is_file(folder / name) else b""
        except (OSError, ValueError):
            content = b""
        total.update(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest() + hashlib.sha256(content).digest())
    return total.hexdigest()
