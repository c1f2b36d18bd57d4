"""Claims about files that survive a power cut: flushed before a rename, and the folder after it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from zoo.runs.files import make_aside, move_into_place, replace_file, write_file


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
    move_into_place(make_aside(folder), folder)
    before = [("rename", ".partial-replaced-7")] * replacing
    assert events == [("sync", ".partial-7"), *before, ("rename", "7"), ("sync", "room")]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
def test_a_full_disk_names_the_file():
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        write_file(Path("/dev/full"), b"x")
