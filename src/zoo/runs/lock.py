"""The lock file of a folder: at most one process writes to it."""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from zoo.runs.layout import LOCK

LONGEST_NUMBER = 20  # bytes of a process id in a lock file
TRIES, WAIT = 3, 0.02  # seconds between them


def is_lock(path: Path) -> bool:
    """Whether a file is a lock file of zoo (empty or a process id), not another file of that name."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > LONGEST_NUMBER:
        return False
    held = path.read_bytes().strip()
    return not held or held.isdigit()


def take_lock(folder: Path) -> IO[str]:
    """Lock a folder until the returned file is closed or the process ends, even by a kill.

    Raises:
        ValueError: another process holds it.
        OSError: the folder cannot be written, or its file system does not support locks.
    """
    path = folder / LOCK
    lock = path.open("a+", encoding="utf-8")
    try:
        lock_file(lock)
    except BlockingIOError:
        lock.seek(0)
        number = lock.read().strip()  # empty for a moment, until its owner has written it
        lock.close()
        raise ValueError(in_use(folder, number)) from None
    except OSError:
        lock.close()
        raise
    if not (path.exists() and os.path.samestat(os.fstat(lock.fileno()), path.stat())):
        lock.close()  # its previous owner deleted the file between our open and our lock
        return take_lock(folder)
    try:
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
    except OSError:  # a full disk
        path.unlink(missing_ok=True)
        with suppress(OSError):
            lock.close()
        raise
    return lock


def lock_file(lock: IO[str]) -> None:
    """Lock a file, also where another process asks at this moment who holds it: `writer_of` takes the lock for that.

    Raises:
        OSError: another process holds it (BlockingIOError), or the file system does not support locks.
    """
    for left in reversed(range(TRIES)):
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not left:
                raise
            time.sleep(WAIT)


def in_use(folder: Path, writer: str | None) -> str:
    """The message for a folder that another process, if known so numbered, writes to."""
    owner = f"process {writer}" if writer and writer.isdigit() else "another process"
    return f"{folder}: {owner} is writing to it; wait for it, or choose another folder"


def writer_of(folder: Path) -> str | None:
    """The id of the process that holds a folder's lock; None if none does or the file system has no locks."""
    try:
        with open(os.open(folder / LOCK, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as lock:  # no hang on a pipe
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return lock.read(LONGEST_NUMBER).strip() or "another"
    except OSError:
        return None
    return None
