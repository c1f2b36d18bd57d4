"""Claims about files that survive a power cut: flushed before a rename, and the folder after it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from zoo.runs.files import (
    make_temporary_folder,
    remove_folder,
    replace_file,
    replace_folder,
    restore_replaced,
    write_file,
)
from zoo.runs.metrics import Mark, MetricsLog


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is flushed and renamed, in order, by the name of the file or folder."""
    found: list[tuple[str, str]] = []

    def noted(name: str, work: Callable[..., None], path_of: Callable[..., str]) -> Callable[..., None]:
        def call(*given: object) -> None:
            found.append((name, Path(path_of(*given)).name))
            work(*given)

        return call

    monkeypatch.setattr(os, "fsync", noted("sync", os.fsync, lambda number: os.readlink(f"/proc/self/fd/{number}")))
    monkeypatch.setattr(os, "rename", noted("rename", os.rename, lambda old, new: str(new)))
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc here to name what is flushed")
def test_a_replaced_file_is_flushed_before_its_rename_and_its_folder_after_it(
    events: list[tuple[str, str]], tmp_path: Path
):
    (tmp_path / "room").mkdir()
    replace_file(tmp_path / "room" / "a.json", b"new")
    assert events == [("sync", ".partial-a.json"), ("rename", "a.json"), ("sync", "room")]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc here to name what is flushed")
@pytest.mark.parametrize("replacing", [False, True])
def test_a_folder_is_flushed_before_its_rename_and_the_folder_around_it_after_it(
    events: list[tuple[str, str]], tmp_path: Path, replacing: bool
):
    folder = tmp_path / "room" / "7"
    if replacing:
        folder.mkdir(parents=True)
    replace_folder(make_temporary_folder(folder), folder)
    before = [("rename", ".partial-replaced-7")] * replacing
    assert events == [("sync", ".partial-7"), *before, ("rename", "7"), ("sync", "room")]
    assert [path.name for path in (tmp_path / "room").iterdir()] == ["7"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc here to name what is flushed")
def test_a_log_is_flushed_before_a_checkpoint_says_how_far_it_is(events: list[tuple[str, str]], tmp_path: Path):
    log = MetricsLog(tmp_path / "metrics.jsonl", Mark())
    log.append({"step": 1})
    assert not events and log.mark().bytes == 12 and events == [("sync", "metrics.jsonl")]
    log.close()


def test_what_a_kill_left_in_the_way_is_replaced(tmp_path: Path):
    (make_temporary_folder(tmp_path / "7") / "half").touch()
    assert not list(make_temporary_folder(tmp_path / "7").iterdir())
    for _ in range(2):  # the second time, half of the first is there
        (tmp_path / "7").mkdir()
        (tmp_path / ".partial-gone-7").mkdir(exist_ok=True)
        (tmp_path / ".partial-gone-7" / "half").touch()
        remove_folder(tmp_path / "7")
    assert [path.name for path in tmp_path.iterdir()] == [".partial-7"]


def test_a_checkpoint_that_was_replaced_does_not_come_back(tmp_path: Path):
    for name in ("7", ".partial-replaced-7", ".partial-replaced-8"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    restore_replaced(tmp_path)
    assert [path.name for path in sorted(tmp_path.iterdir())] == [".partial-replaced-7", "7", "8"]
    assert (tmp_path / "7" / "7").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
def test_a_full_disk_names_the_file():
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        write_file(Path("/dev/full"), b"x")
