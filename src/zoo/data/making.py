"""Folders that several processes and machines make at the same time: each by one of them, whole or not at all."""

import errno
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

from zoo.data.home import name_file
from zoo.disk import remove, sync

ASIDE = ".making-"
LOCK = ".lock"
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)  # as on Lustre mounted without them
WAIT = 0.5  # seconds between two looks at what another process makes
OLD = 86_400.0  # seconds; what another machine has not touched for so long, it has left
Made = TypeVar("Made")
logger = logging.getLogger(__name__)


@contextmanager
def claim(folder: Path) -> Iterator[bool]:
    """Whether this process is the one that may make a folder; a process that dies gives its claim back.

    On a shared disk whose locks do not reach other machines, two of them may make the same folder: it is the same.

    Raises:
        RuntimeError: the disk knows no locks at all, or nothing can be written there.
    """
    lock = folder.with_name(f".{folder.name}{LOCK}")
    with name_file(lock):
        folder.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    mine = False
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # whoever had it before has removed its name
            mine = lock.exists() and os.fstat(handle).st_ino == lock.stat().st_ino
        except OSError as error:
            if error.errno in NO_LOCKS:  # the processes of one machine would remove what the others make
                said = f"its file system has no locks ({error.strerror}); set ZOO_CACHE to a folder on another disk"
                raise RuntimeError(f"{folder.parent}: {said}") from None
        yield mine
    finally:
        if mine:
            lock.unlink(missing_ok=True)
        os.close(handle)


def make_folder(folder: Path, make: Callable[[Path], None], whole: Callable[[Path], bool]) -> None:
    """Make a folder aside and put it in its place, in the process that holds the claim.

    Args:
        make: fills an empty folder.
        whole: whether what lies in a place is what was wanted.
    """
    remove_leftovers(folder)
    aside = Path(tempfile.mkdtemp(prefix=f"{ASIDE}{os.uname().nodename}-{folder.name}-", dir=folder.parent))
    try:
        make(aside)
        aside.chmod(0o777 & ~umask())
        sync(aside)
        try:
            aside.rename(folder)
        except OSError:
            if not whole(folder):  # not another machine's, but something damaged, or no folder at all
                remove(folder)
                aside.rename(folder)
        sync(folder.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def make_once(folder: Path, make: Callable[[Path], None], read: Callable[[Path], Made | None]) -> Made:
    """What lies in a folder, made by the first process that asks; the others wait for it.

    Args:
        make: fills an empty folder.
        read: gives what lies there; None where there is nothing, or something damaged.
    """
    while True:
        if (found := read(folder)) is not None:
            return found
        with claim(folder) as mine:
            if mine and read(folder) is None:
                make_folder(folder, make, lambda place: read(place) is not None)
        if not mine:
            time.sleep(WAIT)


@cache
def tell_damage(what: str, damage: str, remedy: str) -> None:
    """Say that something is damaged; once, however often it is looked at before it is made again."""
    logger.warning("%s is damaged (%s) and is %s", what, damage, remedy)


def umask() -> int:
    """What the user takes away from the rights of new files; temporary folders ignore it."""
    found = os.umask(0)
    os.umask(found)
    return found


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes of this machine left of a folder, and other machines long ago."""
    here = f"{ASIDE}{os.uname().nodename}-"
    for left in folder.parent.glob(f"{ASIDE}*-{folder.name}-*"):
        with suppress(FileNotFoundError):  # another machine has just put it in its place
            if left.name.startswith(here) or time.time() - left.stat().st_mtime > OLD:
                shutil.rmtree(left, ignore_errors=True)


def remove_all_leftovers(store: Path) -> None:
    """Remove what killed processes left of any folder of a store."""
    for left in store.glob(f"{ASIDE}*"):
        folder = store / left.name.rsplit("-", 2)[1]
        with claim(folder) as mine:
            if mine:
                remove_leftovers(folder)
