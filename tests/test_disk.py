"""Files that are written aside."""

import errno
import os
from pathlib import Path

import pytest

from zoo.data.home import home
from zoo.disk import atomic_write, expand_user, refuse_unwritable


def test_what_was_there_stays_until_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(OSError, match=r"No space left on device: '.*/page\.html'"), atomic_write(path) as aside:
        aside.write_text("half of")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    with atomic_write(path) as aside:
        aside.write_text("new")
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


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


def test_the_home_of_nobody_is_a_name_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert expand_user("~/run") == Path("/somewhere/run")
    assert expand_user("~nobody-of-this-name/run") == Path("~nobody-of-this-name/run")
    monkeypatch.setenv("ZOO_CACHE", "~nobody-of-this-name/cache")
    assert home() == Path("~nobody-of-this-name/cache")
