"""Files that survive a kill: written aside, flushed to the disk, renamed; read with errors that name them."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zoo.disk import remove, sync
from zoo.strict_json import parse_json

ASIDE = ".partial-"
REPLACED = f"{ASIDE}replaced-"
MAX_BYTES = 64 << 20  # of a JSON file


def write_file(path: Path, content: bytes) -> None:
    """Write a new file and wait until the disk has it.

    Raises:
        OSError: it cannot be written (a full disk); the error names the file.
    """
    try:
        with path.open("wb") as file:
            file.write(content)
        sync(path)
    except OSError as error:  # that of `write` or `fsync` names no file
        raise OSError(error.errno, error.strerror, str(path)) from None


def replace_file(path: Path, content: bytes) -> None:
    """Put a file in place of the one that is there: at every moment it is either the old one or the new one."""
    aside = path.with_name(f"{ASIDE}{path.name}")
    write_file(aside, content)
    aside.rename(path)
    sync(path.parent)


def make_aside(folder: Path) -> Path:
    """An empty temporary folder beside the place where `folder` will be."""
    aside = folder.with_name(f"{ASIDE}{folder.name}")
    if aside.exists():
        shutil.rmtree(aside)
    aside.mkdir(parents=True)
    return aside


def move_into_place(aside: Path, folder: Path) -> None:
    """Give a finished temporary folder its name, in place of the one that is there.

    A folder cannot replace another one in one step. If a kill comes between the two renames, `restore_replaced` undoes
    the first.
    """
    sync(aside)
    before = folder.with_name(f"{REPLACED}{folder.name}")
    if folder.exists():
        folder.rename(before)
    aside.rename(folder)
    sync(folder.parent)
    if before.exists():
        shutil.rmtree(before)


def restore_replaced(folder: Path) -> None:
    """Give each folder that was being replaced when the process died its name back."""
    for before in folder.glob(f"{REPLACED}*"):
        name = folder / before.name.removeprefix(REPLACED)
        if not name.exists():
            before.rename(name)


def remove_folder(folder: Path) -> None:
    """Delete a folder; renamed first, so that a kill never leaves half of it under its name."""
    if os.path.lexists(folder):
        gone = folder.with_name(f"{ASIDE}gone-{folder.name}")
        if os.path.lexists(gone):
            remove(gone)
        folder.rename(gone)
        remove(gone)


def names_in(folder: Path) -> list[str]:
    """What a folder holds that is yet to be written, except what a killed process left; nothing if it is not there.

    Raises:
        ValueError: a file, or a folder that cannot be read.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder}: is a file; choose a new or empty folder")
        names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise ValueError(f"{folder}: cannot be read: {error.strerror}") from None
    return [name for name in names if not name.startswith(ASIDE)]


def remove_stray(folder: Path) -> list[str]:
    """Delete what a killed process left half-written in a folder; the names of what was there."""
    stray = sorted(folder.glob(f"{ASIDE}*")) if folder.is_dir() else []
    for path in stray:
        remove(path)
    return [path.name for path in stray]


def digest(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Name what cannot be read: a folder that nobody else may enter, or a file on a disk that fails.

    Raises:
        ValueError: it cannot; the system's own error would name no file where a disk fails.
    """
    try:
        yield
    except OSError as error:
        raise ValueError(f"{error.filename or path}: cannot be read: {error.strerror}") from None


def check_file(path: Path, written: str, witness: str) -> None:
    """Refuse a file that is not the one that was written.

    Args:
        written: the SHA-256 that it had.
        witness: who knows that.
    """
    with readable(path):
        found = digest(path) if path.is_file() else None
    if found is None:
        raise ValueError(f"{path}: no such file, but {witness} lists it")
    if found != written:
        raise ValueError(f"{path}: damaged or changed: its SHA-256 is not the one that {witness} lists")


def to_json(tree: Any) -> bytes:
    """A tree as readable JSON; NaN and infinities are not JSON."""
    return (json.dumps(tree, indent=1, allow_nan=False) + "\n").encode()


def seal(tree: Mapping[str, Any]) -> bytes:
    """A tree as JSON, with the SHA-256 of everything else in it."""
    return to_json({**tree, "sha256": hashlib.sha256(to_json(tree)).hexdigest()})


def read_sealed(path: Path) -> dict[str, Any]:
    """The tree that `seal` wrote to a file.

    Raises:
        ValueError: as `read_json`, or the file was changed.
    """
    tree = read_json(path)
    written = tree.pop("sha256", None)
    if written is None:
        raise ValueError(f"{path}: is damaged, its SHA-256 is missing")
    if hashlib.sha256(to_json(tree)).hexdigest() != written:
        raise ValueError(f"{path}: is damaged, its checksum does not match")
    return tree


def read_file(path: Path, most: int = -1) -> bytes:
    """The content of a file.

    Args:
        most: bytes that are read; -1: all.

    Raises:
        ValueError: it cannot be read, or is not a file.
    """
    try:
        if path.exists() and not path.is_file():
            raise ValueError(f"{path}: is not a file")  # reading a pipe would wait for ever
        with path.open("rb") as file:
            return file.read(most)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds one map.

    Raises:
        ValueError: as `read_file`; or not JSON, too large, or not a map.
    """
    content = read_file(path, MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"{path}: is damaged, it has more than {MAX_BYTES} bytes")
    return parse_json(content, str(path))


def refuse_outside(folder: Path) -> None:
    """Refuse a run with a link that leads out of it: files elsewhere do not belong to this run.

    Raises:
        ValueError: there is such a link.
    """
    root = folder.resolve()
    with readable(folder):
        links = [path for pattern in ("*", "*/*") for path in folder.glob(pattern) if path.is_symlink()]
        # a checkpoint that nobody may enter, where `is_symlink` raises, is a broken one like others
        links += [path for path in folder.glob("*/*/*") if os.path.islink(path)]
    for path in links:
        # `resolve` raises an error of its own at a link to itself, which is a damaged file like any other
        if not Path(os.path.realpath(path)).is_relative_to(root):
            raise ValueError(f"{path}: leads out of the run; zoo reads and writes nothing outside it")
