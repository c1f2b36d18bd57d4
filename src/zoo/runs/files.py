"""Atomic files and folders (written to a temporary name, synced, renamed), and reading with errors that name them."""

import errno
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zoo.disk import NOTHING_THERE, exists, is_file, is_link, remove, sync
from zoo.strict_json import parse_json

TEMPORARY_PREFIX = ".partial-"
REPLACED = f"{TEMPORARY_PREFIX}replaced-"
MAX_BYTES = 64 << 20  # of a JSON file
logger = logging.getLogger(__name__)


def write_file(path: Path, content: bytes) -> None:
    """Write a new file and wait until the disk has it.

    Raises:
        OSError: it cannot be written (a full disk); the error names the file.
    """
    try:
        with path.open("wb") as file:
            file.write(content)
        sync(path)
    except OSError as error:  # an error of `write` or `fsync` has no file name
        raise OSError(error.errno, error.strerror, str(path)) from None


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically: after a crash it is either the old or the new one."""
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}")
    write_file(temporary, content)
    temporary.rename(path)
    sync(path.parent)


def make_temporary_folder(folder: Path) -> Path:
    """Create an empty temporary folder beside `folder`."""
    temporary = folder.with_name(f"{TEMPORARY_PREFIX}{folder.name}")
    if temporary.exists():
        shutil.rmtree(temporary)
    temporary.mkdir(parents=True)
    return temporary


def replace_folder(temporary: Path, folder: Path) -> None:
    """Rename a finished temporary folder to `folder`, replacing an existing one.

    A rename cannot replace a folder that is not empty, so the old one is renamed first. If the process dies between the
    two renames, `restore_replaced` undoes the first.
    """
    sync(temporary)
    before = folder.with_name(f"{REPLACED}{folder.name}")
    if folder.exists():
        folder.rename(before)
    temporary.rename(folder)
    sync(folder.parent)
    if before.exists():
        try_to_remove(before)


def restore_replaced(folder: Path) -> None:
    """Undo the first rename of `replace_folder` for each folder whose replacement was interrupted."""
    for before in folder.glob(f"{REPLACED}*"):
        name = folder / before.name.removeprefix(REPLACED)
        if not name.exists():
            before.rename(name)


def remove_folder(folder: Path) -> None:
    """Delete a folder; it is renamed first, so that a crash never leaves half of it under its name."""
    if os.path.lexists(folder):
        gone = folder.with_name(f"{TEMPORARY_PREFIX}gone-{folder.name}")
        if os.path.lexists(gone):
            try_to_remove(gone)
        folder.rename(gone)
        try_to_remove(gone)


def try_to_remove(path: Path) -> bool:
    """Delete a file or folder; if that fails, log it and return False.

    It fails in a folder of another user, and on NFS while another process reads a file in it.
    """
    try:
        remove(path)
        return True
    except OSError as error:
        logger.warning("%s: cannot be deleted: %s; delete it yourself", path, error.strerror)
        return False


def names_in(folder: Path) -> list[str]:
    """The names in a folder, without temporary files of a killed process; empty if the folder does not exist.

    Raises:
        ValueError: it is a file, or cannot be read.
    """
    with refuse_unreadable(folder):
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder}: is a file; choose a new or empty folder")
        names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return [name for name in names if not name.startswith(TEMPORARY_PREFIX)]


def remove_leftovers(folder: Path) -> list[str]:
    """Delete temporary files that a killed process left in a folder, and return the names of those deleted."""
    stray = sorted(folder.glob(f"{TEMPORARY_PREFIX}*")) if folder.is_dir() else []
    return [path.name for path in stray if try_to_remove(path)]


def digest(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def refuse_unreadable(path: Path) -> Iterator[None]:
    """Turn an OSError into a ValueError that names the file or folder.

    Raises:
        ValueError: no permission, or a failing disk, whose OSError has no file name.
    """
    try:
        yield
    except OSError as error:
        raise ValueError(f"{error.filename or path}: cannot be read: {error.strerror}") from None


def check_file(path: Path, expected: str, recorded_by: str) -> None:
    """Raise a ValueError if a file is missing or its hash differs.

    Args:
        expected: the SHA-256 that it must have.
        recorded_by: what recorded the hash, for the message.
    """
    with refuse_unreadable(path):
        found = digest(path) if is_file(path) else None
    if found is None:
        raise ValueError(f"{path}: no such file, but {recorded_by} lists it")
    if found != expected:
        raise ValueError(f"{path}: damaged or changed: its SHA-256 is not the one that {recorded_by} lists")


def to_json(tree: Any) -> bytes:
    """A tree as indented JSON; raises a ValueError for NaN and infinities."""
    return (json.dumps(tree, indent=1, allow_nan=False) + "\n").encode()


def seal(tree: Mapping[str, Any]) -> bytes:
    """A tree as JSON with a key `sha256`, the hash of all other keys."""
    return to_json({**tree, "sha256": hashlib.sha256(to_json(tree)).hexdigest()})


def read_sealed(path: Path) -> dict[str, Any]:
    """Read a file written by `seal`, and check its hash.

    Raises:
        ValueError: as `read_json`, or the hash is missing or wrong.
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
        most: maximum number of bytes to read; -1: all.

    Raises:
        ValueError: it cannot be read, or is not a file.
    """
    try:
        if exists(path) and not is_file(path):
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


def entries(folder: Path) -> list[Path]:
    """What a folder holds; nothing if it may not be read, is none, or another process has deleted it meanwhile."""
    try:
        return [folder / name for name in os.listdir(folder)]
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, *NOTHING_THERE):
            raise
        return []


def refuse_outside(folder: Path) -> None:
    """Refuse a run that has a symbolic link to outside its folder.

    Raises:
        ValueError: there is such a link.
    """
    root = folder.resolve()
    with refuse_unreadable(folder):
        first = entries(folder)
        second = [path for place in first for path in entries(place)]
        links = [path for path in (*first, *second) if is_link(path)]
        # os.path.islink, because is_link raises an error without permission: that checkpoint just counts as damaged
        links += [path for place in second for path in entries(place) if os.path.islink(path)]
    for path in links:
        # os.path.realpath, because Path.resolve raises on a link to itself: that file just counts as damaged
        if not Path(os.path.realpath(path)).is_relative_to(root):
            raise ValueError(f"{path}: leads out of the run; zoo reads and writes nothing outside it")
