"""Claims about who may write to a run's folder: one process at a time, and nobody through a link out of it."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
from test_run import FILES, begin

from zoo.runs import lock
from zoo.runs.lock import LOCK, is_lock, take_lock, writer_of
from zoo.runs.run import RunFiles, check_folder, create_run, refuse_unwritable_folder
from zoo.runs.saved import open_run


@pytest.mark.parametrize("folder", ["run", "run/below"])
@pytest.mark.parametrize("to", ["nowhere", "run"])
def test_a_link_that_leads_nowhere_is_no_folder(tmp_path: Path, to: str, folder: str):
    (tmp_path / "run").symlink_to(to)
    with pytest.raises(ValueError, match="run: is a broken link; choose another folder"):
        check_folder(tmp_path / folder, resume=False)


@pytest.mark.parametrize("place", ["training.yaml", "checkpoints/1", "checkpoints/1/state.json"])
def test_a_run_with_a_link_out_of_it_is_neither_continued_nor_read(tmp_path: Path, place: str):
    begin(tmp_path / "run", steps=1)
    (tmp_path / "run" / place).rename(tmp_path / "elsewhere")
    (tmp_path / "run" / place).symlink_to(tmp_path / "elsewhere")
    for read in (open_run, lambda folder: create_run(folder, FILES, resume=True)):
        with pytest.raises(ValueError, match=f"{place}: leads out of the run; zoo reads"):
            read(tmp_path / "run")
    (tmp_path / "run" / place).unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "run" / "inside")
    (tmp_path / "run" / place).symlink_to(tmp_path / "run" / "inside")
    (tmp_path / "link").symlink_to("run")
    assert open_run(tmp_path / "link").step == 1  # which leads into it


def test_two_processes_cannot_train_in_one_folder(tmp_path: Path):
    code = (
        "import sys; from pathlib import Path; from zoo.runs.run import RunFiles, create_run\n"
        "run = create_run(Path(sys.argv[1]), RunFiles({})); print('locked', flush=True); sys.stdin.read()"
    )
    owner = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert owner.stdout is not None and owner.stdout.readline() == b"locked\n"
        for resume in (True, False):
            with pytest.raises(ValueError, match=f"process {owner.pid} is writing to it; wait for it, or choose"):
                check_folder(tmp_path, resume)
        with pytest.raises(ValueError, match=f"process {owner.pid} is writing to it"):
            create_run(tmp_path, FILES, resume=True)
    finally:
        owner.kill()
        owner.communicate()
    create_run(tmp_path, RunFiles({}), resume=True).close()


def test_a_disk_without_locks_is_refused_before_any_work_and_when_the_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(lock: int, how: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    words = r"run: its file system has no locks \(Function not implemented\); choose a folder on another disk"
    for begin_in in (refuse_unwritable_folder, lambda folder: create_run(folder, FILES)):
        with pytest.raises(ValueError, match=words):
            begin_in(tmp_path / "run")


def test_a_folder_that_is_filled_while_a_run_waits_for_its_lock_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def late(folder: Path) -> IO[str]:
        (folder / "config.json").write_text("{}")
        return take_lock(folder)

    monkeypatch.setattr("zoo.runs.run.take_lock", late)
    with pytest.raises(ValueError, match="is not empty and not a run"):
        create_run(tmp_path, RunFiles({}))
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != ".lock") == ["config.json"]


def test_a_lock_names_who_has_it_now(tmp_path: Path):
    (tmp_path / ".lock").write_text("98765432\n")  # who was killed
    with take_lock(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n" and writer_of(tmp_path) == str(os.getpid())
    assert writer_of(tmp_path) is None


def test_a_lock_that_its_holder_removed_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its file was opened before, so that locking it succeeds, and keeps nobody out."""
    flock = fcntl.flock

    def removed(file: IO[str], how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        (tmp_path / ".lock").unlink()
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", removed)
    with take_lock(tmp_path), pytest.raises(ValueError, match=f"process {os.getpid()} is writing to it"):
        take_lock(tmp_path)


def test_who_asks_for_the_writer_keeps_nobody_from_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`writer_of` holds the lock itself for a moment."""
    asks = (tmp_path / LOCK).open("a+")
    fcntl.flock(asks, fcntl.LOCK_SH)
    monkeypatch.setattr(lock.time, "sleep", lambda seconds: asks.close())
    with take_lock(tmp_path):
        assert asks.closed


@pytest.mark.parametrize(("held", "is_one"), [(b"", True), (b"7\n", True), (b"seven\n", False), (b"7" * 21, False)])
def test_a_lock_holds_a_number_of_a_process_or_nothing_yet(tmp_path: Path, held: bytes, is_one: bool):
    (tmp_path / "file").write_bytes(held)
    (tmp_path / ".lock").symlink_to("file")
    assert is_lock(tmp_path / "file") is is_one and not is_lock(tmp_path / ".lock") and not is_lock(tmp_path)


def test_a_lock_whose_owner_has_not_written_its_number_yet_is_refused(tmp_path: Path):
    with (tmp_path / LOCK).open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match=": another process is writing to it; wait for it"):
            take_lock(tmp_path)
