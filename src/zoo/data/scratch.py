"""Temporary folders that the next process removes if the process that made them was killed."""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

PREFIX = "zoo-scratch-"


class Scratch:
    """A new temporary folder, until `remove`; it is locked, so that other processes see that it is in use.

    Raises:
        RuntimeError: no temporary folder can be made (a full disk).
    """

    def __init__(self) -> None:
        while True:
            try:
                remove_abandoned()
                self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
            except OSError as error:
                place = error.filename or "temporary folder"
                said = f"cannot be made: {error.strerror}; set TMPDIR to a folder on another disk"
                raise RuntimeError(f"{place}: {said}") from None
            # before it is locked, another process may consider it abandoned and remove it
            with suppress(FileNotFoundError):
                self.lock = os.open(self.folder, os.O_RDONLY)
                if try_lock(self.lock) is not False and self.folder.is_dir():
                    return
                os.close(self.lock)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self.lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def try_lock(lock: int) -> bool | None:
    """Lock an open folder for as long as this process lives.

    Returns:
        False if another process holds the lock; None if the file system has no locks.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def remove_abandoned() -> None:
    """Remove this user's scratch folders that no process holds any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
        except OSError:  # it was just removed, or belongs to another user
            continue
        if os.fstat(lock).st_uid == os.getuid() and try_lock(lock):
            shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
