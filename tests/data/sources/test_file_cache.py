"""What is remembered of sources."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from zoo.data.formats.format import ReadOptions
from zoo.data.home import replace_file
from zoo.data.sources import file_cache
from zoo.data.sources.file_cache import YOUNG, Stat, hash_ranges, hashed_ranges, remember, remember_file
from zoo.data.sources.part import FilePart


def test_where_nothing_can_be_written_it_is_found_again_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file, so that no folder can be there")
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    made = iter([7, 8])
    assert [remember(["key"], lambda: next(made)) for _ in range(2)] == [7, 8]


def test_what_is_remembered_of_a_file_is_not_said_of_it_where_it_is_read_in_another_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "a.tsv"
    path.write_text("x\ty\n1\t2\n")
    os.utime(path, (1e9, 1e9))  # of a younger file nothing is remembered
    for header, names in ((None, ["x", "y"]), (("a", "b"), ["a", "b"])):
        for _ in range(2):
            part = FilePart(hashed_ranges(path, cut=True)[0], ReadOptions(header=header))
            assert part.columns == names


@pytest.mark.parametrize(("age", "found"), [(YOUNG / 2, [1, 2]), (-YOUNG / 2, [1, 2]), (2 * YOUNG, [1, 1])])
def test_nothing_is_remembered_of_a_file_that_changed_so_lately_that_it_may_change_unseen(
    age: float, found: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(file_cache, "time", SimpleNamespace(time=lambda: 1e9 + age))
    (tmp_path / "a.txt").touch()
    os.utime(tmp_path / "a.txt", (1e9, 1e9))
    made, stat = iter([1, 2]), Stat.of(tmp_path / "a.txt")
    assert [remember_file("what", tmp_path / "a.txt", stat, "how", lambda: next(made)) for _ in range(2)] == found


def test_a_file_that_ends_with_a_stretch_has_no_empty_one(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ab\n" * 4)
    found = [one.line_range[1:] for one in hash_ranges(tmp_path / "a.txt", 6)]
    assert found == [(0, 6, 1), (6, 12, 3)]


def test_nothing_is_left_of_a_file_that_cannot_be_put_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(RuntimeError, match="taken: cannot be written: Is a directory"):
        replace_file(tmp_path / "taken", "content")
    assert list(tmp_path.iterdir()) == [tmp_path / "taken"]


def test_a_cache_that_cannot_be_written_is_told_how_to_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cache", "taken"):
        (tmp_path / name).touch()
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    for folder, remedy in (("cache", "; set ZOO_CACHE to another folder"), ("", "")):
        with pytest.raises(RuntimeError, match=rf"cannot be written: [\w ]+{remedy}$"):
            replace_file(tmp_path / folder / "taken" / "a.json", "content")
