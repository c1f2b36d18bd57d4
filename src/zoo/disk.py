"""Paths with `~`, output files that are replaced atomically, Git LFS pointers, deleting, and syncing to disk."""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

PROBE = 4096  # bytes written to test whether a file can be
NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # ELOOP: a link to itself
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)  # as on Lustre mounted without locks
POINTER = b"version https://git-lfs."  # a small text file that Git LFS leaves in place of a large file
LARGEST_POINTER = 1023  # bytes, by the specification of Git LFS
POINTER_ADVICE = "is a Git LFS pointer, without the file's content; run `git lfs pull` to get it"
LONGEST = 60  # characters of a file name: at up to 4 bytes each, within the usual limit of 255 bytes


def expand_user(path: str | Path) -> Path:
    """Expand `~`; an unknown user's `~name` stays as it is."""
    return Path(os.path.expanduser(path))  # pathlib would raise a RuntimeError


def refuse_empty(path: str | Path, place: str) -> None:
    """Refuse an empty text as a path: pathlib would read it as the working directory.

    Raises:
        ValueError: it is empty.
    """
    if not str(path).strip():
        raise ValueError(f"{place}: it is empty; give a path")


def file_mode(path: Path, follow_symlinks: bool = True) -> int:
    """The `st_mode` of a path; 0 if nothing is there.

    Where a folder may not be entered, Path.exists, is_file, is_dir and is_symlink raise an error up to Python 3.13.
    From 3.14 on they return False, as if nothing were there.

    Raises:
        OSError: the path leads through a folder that may not be entered, or is too long, or the disk fails.
    """
    try:
        return path.stat(follow_symlinks=follow_symlinks).st_mode
    except ValueError:  # a NUL character, or one that no file name has
        return 0
    except OSError as error:
        if error.errno in NOTHING_THERE:
            return 0
        raise


def exists(path: Path) -> bool:
    """Whether there is a file or folder; raises an OSError as `file_mode`."""
    return file_mode(path) != 0


def is_file(path: Path) -> bool:
    """Whether a path is a regular file; raises an OSError as `file_mode`."""
    return stat.S_ISREG(file_mode(path))


def is_folder(path: Path) -> bool:
    """Whether a path is a folder; raises an OSError as `file_mode`."""
    return stat.S_ISDIR(file_mode(path))


def is_link(path: Path) -> bool:
    """Whether a path is a symbolic link; raises an OSError as `file_mode`."""
    return stat.S_ISLNK(file_mode(path, follow_symlinks=False))


def refuse_pointer(path: Path) -> None:
    """Refuse a regular file that is a pointer of Git LFS; nothing is read from a pipe.

    Raises:
        ValueError: it is one.
        OSError: it cannot be read.
    """
    status = path.stat()
    if stat.S_ISREG(status.st_mode) and len(POINTER) < status.st_size <= LARGEST_POINTER:
        with path.open("rb") as file:
            if file.read(len(POINTER)) == POINTER:
                raise ValueError(f"{path}: {POINTER_ADVICE}")


def temporary_path(path: Path) -> Path:
    """The temporary path for writing a file before it is renamed.

    It is unique to file, machine and process, since several processes may write the same file at once. The name is
    shortened, because the file's own may already have the maximal length.
    """
    owned = os.fsencode(path.name) + f"/{os.uname().nodename}/{os.getpid()}".encode()
    return path.with_name(f".partial-{sha256(owned).hexdigest()[:16]}-{path.name}"[:LONGEST])


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; on success it replaces `path`, which is unchanged until then.

    Raises:
        OSError: it cannot be written; the error names the file.
    """
    temporary = temporary_path(path)
    try:
        yield temporary
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o7777)
        temporary.replace(path)
    except OSError as error:  # name the file itself, not the temporary one
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)


def resolve_output(path: Path, name: str, place: str = "") -> Path:
    """The absolute path of an output file, with links resolved.

    Args:
        name: an example of a file name, for the message if `path` is a folder.
        place: prefix of messages, such as the option.

    Raises:
        ValueError: it is a folder, a device or a link to itself, it cannot be reached, or its folder does not exist.
    """
    try:
        mode, resolved = file_mode(path), Path(os.path.realpath(path))
    except OSError as error:
        raise ValueError(f"{place}{path}: cannot be written: {error.strerror}; name another file") from None
    if resolved.is_symlink():
        raise ValueError(f"{place}{path}: is a link to itself; name another file")
    if stat.S_ISDIR(mode):
        raise ValueError(f"{place}{path}: is a folder; name a file, such as {path / name}")
    if not resolved.parent.is_dir():
        raise ValueError(f"{place}{path}: no folder {resolved.parent}")
    if mode and not stat.S_ISREG(mode):
        raise ValueError(f"{place}{path}: is not a regular file, but a device or a pipe; name a file")
    return resolved


def refuse_unwritable(path: Path, place: str = "") -> None:
    """Refuse an output file that cannot be written, before the work starts.

    Raises:
        ValueError: it cannot be written.
    """
    temporary = temporary_path(path)
    if path.exists() and not os.access(path, os.W_OK):
        raise ValueError(f"{place}{path}: cannot be written: {os.strerror(errno.EACCES)}")
    try:
        try:
            temporary.write_bytes(bytes(PROBE))
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ValueError(f"{place}{path}: cannot be written: {error.strerror}") from None


def remove(path: Path) -> None:
    """Delete a file, a link (not its target), or a folder with its content."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def sync(path: Path) -> None:
    """fsync a file's content, or a folder's entries where the file system can (VirtualBox's shared folders cannot)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL or not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise
    finally:
        os.close(descriptor)
