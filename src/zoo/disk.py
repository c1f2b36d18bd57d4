"""Paths with `~`, output files that are written aside and then renamed, deleting, and waiting for the disk."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

PROBE = 4096  # bytes
LONGEST = 60  # characters of a name, of which each may take four bytes of the 255 that a system allows


def at_home(path: str | Path) -> Path:
    """A path whose `~` is the home; that of a user whose home is not known is a name like any other."""
    return Path(os.path.expanduser(path))  # pathlib would raise a RuntimeError


def beside(path: Path) -> Path:
    """Where a file is written before it has its name, which may be as long as names can be.

    It is the place of this file and of this process: another one may write the same file at the same time.
    """
    owned = os.fsencode(path.name) + f"/{os.uname().nodename}/{os.getpid()}".encode()
    return path.with_name(f".partial-{sha256(owned).hexdigest()[:16]}-{path.name}"[:LONGEST])


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """Where to write what takes a file's place in the end; until all of it is written, what was there stays.

    Raises:
        OSError: it cannot be written; the error names the file.
    """
    aside = beside(path)
    try:
        yield aside
        if path.exists():
            aside.chmod(path.stat().st_mode & 0o7777)
        aside.replace(path)
    except OSError as error:  # that of `write` names no file, and others that aside
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        aside.unlink(missing_ok=True)


def settle_output(path: Path, name: str, place: str = "") -> Path:
    """Where a file that somebody asks for will lie, links followed.

    Args:
        name: of such a file, for the message about a folder.
        place: where messages begin, such as the option.

    Raises:
        ValueError: it is a folder, a device or a link to itself, or its own folder is not there.
    """
    try:
        is_folder, settled = path.is_dir(), path.resolve()
    except (OSError, RuntimeError):  # Python 3.11 and 3.12 raise the second one
        raise ValueError(f"{place}{path}: is a link to itself, or too long a name; name another file") from None
    if is_folder:
        raise ValueError(f"{place}{path}: is a folder; name a file, such as {path / name}")
    if not settled.parent.is_dir():
        raise ValueError(f"{place}{path}: no folder {settled.parent}")
    if path.exists() and not path.is_file():
        raise ValueError(f"{place}{path}: is not a regular file, but a device or a pipe; name a file")
    return settled


def refuse_unwritable(path: Path, place: str = "") -> None:
    """Refuse a file that cannot be written, before any work is done for it.

    Raises:
        ValueError: it cannot.
    """
    aside = beside(path)
    if path.exists() and not os.access(path, os.W_OK):
        raise ValueError(f"{place}{path}: cannot be written: {os.strerror(errno.EACCES)}")
    try:
        try:
            aside.write_bytes(bytes(PROBE))
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise ValueError(f"{place}{path}: cannot be written: {error.strerror}") from None


def remove(path: Path) -> None:
    """Delete a file, a link (not what it leads to), or a folder with all that it holds."""
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def sync(path: Path) -> None:
    """Wait until the disk has a file's content, or a folder's list of names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
