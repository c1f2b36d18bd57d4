"""Claims about temporary folders: those of processes that were killed go, all others stay."""

import errno
import fcntl
import os
import tempfile
from pathlib import Path

import pytest

from zoo.data.atomic_folders import make_folder
from zoo.data.scratch import PREFIX, Scratch


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_that_a_killed_process_left_is_removed_by_the_next(temporary: Path):
    left = Scratch()
    (left.folder / "large").write_text("tensors")
    os.close(left.lock)  # as the system does for a process that is killed
    with Scratch() as scratch:
        assert list(temporary.iterdir()) == [scratch.folder] != [left.folder]
    assert list(temporary.iterdir()) == []


def test_a_folder_that_is_used_stays_and_so_does_what_is_not_ours(temporary: Path):
    (temporary / "elsewhere").mkdir()
    (temporary / f"{PREFIX}link").symlink_to(temporary / "elsewhere")
    used = Scratch()
    with Scratch() as other:
        assert used.folder.is_dir() and other.folder != used.folder
    used.remove()
    assert {path.name for path in temporary.iterdir()} == {"elsewhere", f"{PREFIX}link"}


def test_a_new_folder_that_another_process_is_about_to_remove_is_not_used(monkeypatch: pytest.MonkeyPatch):
    make, taken = tempfile.mkdtemp, list[int]()

    def made(prefix: str) -> str:
        folder = make(prefix=prefix)
        if not taken:  # the other one found it before it was locked
            taken.append(os.open(folder, os.O_RDONLY))
            fcntl.flock(taken[0], fcntl.LOCK_EX)
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", made)
    with Scratch() as scratch:
        assert not os.path.samestat(os.fstat(taken[0]), scratch.folder.stat())
    os.close(taken[0])


def test_a_new_folder_that_another_process_has_removed_is_made_again(monkeypatch: pytest.MonkeyPatch):
    make, made = tempfile.mkdtemp, list[str]()

    def removed_at_first(prefix: str) -> str:
        made.append(make(prefix=prefix))
        if len(made) == 1:  # the other one took it for abandoned
            os.rmdir(made[0])
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", removed_at_first)
    with Scratch() as scratch:
        assert len(made) == 2 and scratch.folder == Path(made[1])


def full(path: str, mode: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def test_a_temporary_folder_that_cannot_be_made_is_named_with_what_helps(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "mkdir", full)
    words = f"{temporary}/{PREFIX}.*: cannot be made: No space left on device; set TMPDIR to a folder on another disk"
    with pytest.raises(RuntimeError, match=words):
        Scratch()


def test_a_folder_of_the_cache_that_cannot_be_made_is_named_with_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "mkdir", full)
    words = f"{tmp_path}/shard: cannot be written: No space left on device; set ZOO_CACHE to another folder"
    with pytest.raises(RuntimeError, match=words):
        make_folder(tmp_path / "shard", lambda aside: None, lambda made: False)


def test_on_a_disk_without_locks_a_folder_is_used_and_none_is_removed(monkeypatch: pytest.MonkeyPatch):
    def refuse(lock: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with Scratch() as first, Scratch() as second:
        assert first.folder.is_dir() and second.folder.is_dir()
