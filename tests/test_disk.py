"""Files that are written aside."""

import errno
import os
from pathlib import Path

import pytest

from zoo.data.home import home
from zoo.disk import atomic_write, exists, expand_user, is_file, is_folder, is_link, refuse_unwritable, sync


def test_what_was_there_stays_until_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(OSError, match=r"No space left on device: '.*/page\.html'"), atomic_write(path) as aside:
        aside.write_text("half of")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    with path.open() as before:
        with atomic_write(path) as aside:
            aside.write_text("new")
        assert before.read() == "old"  # the file itself was not written to
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_replaced_keeps_who_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.touch()
    path.chmod(0o604)
    with atomic_write(path) as aside:
        aside.write_text("new")
    assert path.read_text() == "new" and path.stat().st_mode & 0o7777 == 0o604


def test_two_processes_that_write_one_file_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, number = tmp_path / "page.html", os.getpid()
    with atomic_write(path) as first:
        first.write_text("1")
        monkeypatch.setattr(os, "getpid", lambda: number + 1)
        refuse_unwritable(path)
        with atomic_write(path) as second:
            second.write_text("2")
        assert path.read_text() == "2"
    assert path.read_text() == "1" and list(tmp_path.iterdir()) == [path]


def test_long_names_that_begin_alike_have_places_of_their_own(tmp_path: Path) -> None:
    one, two = (tmp_path / f"{'a' * 240}{seed}.jsonl" for seed in (1, 2))
    with atomic_write(one) as first:
        first.write_text("1")
        refuse_unwritable(two)
        with atomic_write(two) as second:
            second.write_text("2")
    assert (one.read_text(), two.read_text()) == ("1", "2")


def test_a_file_system_that_cannot_sync_folders_is_no_fault_of_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    (tmp_path / "file").touch()
    number = errno.EINVAL
    sync(tmp_path)
    with pytest.raises(OSError, match="Invalid argument"):
        sync(tmp_path / "file")
    number = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        sync(tmp_path)


def test_the_home_of_nobody_is_a_name_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert expand_user("~/run") == Path("/somewhere/run")
    assert expand_user("~nobody-of-this-name/run") == Path("~nobody-of-this-name/run")
    monkeypatch.setenv("ZOO_CACHE", "~nobody-of-this-name/cache")
    assert home() == Path("~nobody-of-this-name/cache")


def test_what_is_not_there_and_what_may_not_be_entered_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "itself").symlink_to("itself")
    assert is_folder(tmp_path) and is_file(tmp_path / "link") and is_link(tmp_path / "link")
    for nothing in ("gone", "file/below", "itself", "nul\0"):
        assert not exists(tmp_path / nothing) and not is_file(tmp_path / nothing)

    def refuse(path: Path, **options: bool) -> None:  # who runs tests may enter any folder
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", refuse)
    for ask in (exists, is_file, is_folder, is_link):
        with pytest.raises(PermissionError):
            ask(tmp_path / "file")
