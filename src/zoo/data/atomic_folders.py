"""Folders that several processes and machines create at the same time: each by one of them, and atomically."""

import fcntl
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

from zoo.data.home import explain_write_error
from zoo.disk import NO_LOCKS, remove, sync

ASIDE = ".making-"
LOCK = ".lock"
WAIT = 0.5  # seconds between two checks for what another process creates
OLD = 86_400.0  # seconds; what another machine has not changed for this long counts as abandoned
Made = TypeVar("Made")
logger = logging.getLogger(__name__)


@contextmanager
def lock_creation(folder: Path) -> Iterator[bool]:
    """Lock a folder's creation; yields whether this process got the lock, which is released even if the process dies.

    If the locks of a shared disk do not reach other machines, two of them may create the same folder, with equal
    content.

    Raises:
        RuntimeError: the file system has no locks, or the lock file cannot be written.
    """
    lock = folder.with_name(f".{folder.name}{LOCK}")
    with explain_write_error(lock):
        folder.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    mine = False
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # false if the process that held the lock has removed the file in the meantime
            mine = lock.exists() and os.fstat(handle).st_ino == lock.stat().st_ino
        except OSError as error:
            if error.errno in NO_LOCKS:  # without locks, processes would remove each other's unfinished folders
                said = f"its file system has no locks ({error.strerror}); set ZOO_CACHE to a folder on another disk"
                raise RuntimeError(f"{folder.parent}: {said}") from None
        yield mine
    finally:
        if mine:
            lock.unlink(missing_ok=True)
        os.close(handle)


def make_folder(folder: Path, make: Callable[[Path], None], whole: Callable[[Path], bool]) -> None:
    """Create a folder atomically, under a temporary name that is then renamed; call it inside `lock_creation`.

    Args:
        make: fills an empty folder.
        whole: whether an existing folder is complete and the wanted one.

    Raises:
        RuntimeError: it cannot be made (a full disk).
    """
    remove_leftovers(folder)
    with explain_write_error(folder):
        aside = Path(tempfile.mkdtemp(prefix=f"{ASIDE}{os.uname().nodename}-{folder.name}-", dir=folder.parent))
    try:
        make(aside)
        aside.chmod(0o777 & ~umask())
        sync(aside)
        try:
            aside.rename(folder)
        except OSError:
            if not whole(folder):  # not created by another machine, but damaged, or not a folder
                remove(folder)
                aside.rename(folder)
        sync(folder.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def make_once(folder: Path, make: Callable[[Path], None], read: Callable[[Path], Made | None]) -> Made:
    """The content of a folder, created by the first process that asks; the others wait for it.

    Args:
        make: fills an empty folder.
        read: returns the content; None if it is missing or damaged.
    """
    while True:
        if (found := read(folder)) is not None:
            return found
        with lock_creation(folder) as mine:
            if mine and read(folder) is None:
                make_folder(folder, make, lambda place: read(place) is not None)
        if not mine:
            time.sleep(WAIT)


@cache
def warn_damaged(what: str, damage: str, remedy: str) -> None:
    """Warn that something is damaged, once for the same arguments."""
    logger.warning("%s is damaged (%s) and is %s", what, damage, remedy)


def umask() -> int:
    """The permissions that the user's umask removes from new files; mkdtemp ignores it."""
    found = os.umask(0)
    os.umask(found)
    return found


def remove_leftovers(folder: Path) -> None:
    """Remove unfinished copies of a folder that killed processes of this machine left, or other machines a day ago."""
    here = f"{ASIDE}{os.uname().nodename}-"
    for left in folder.parent.glob(f"{ASIDE}*-{folder.name}-*"):
        with suppress(FileNotFoundError):  # another machine has just renamed it
            if left.name.startswith(here) or time.time() - left.stat().st_mtime > OLD:
                shutil.rmtree(left, ignore_errors=True)


def remove_all_leftovers(store: Path) -> None:
    """Remove the unfinished folders that killed processes left in a store."""
    for left in store.glob(f"{ASIDE}*"):
        folder = store / left.name.rsplit("-", 2)[1]
        with lock_creation(folder) as mine:
            if mine:
                remove_leftovers(folder)
