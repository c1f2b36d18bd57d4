"""What is remembered of sources."""

from pathlib import Path

import pytest

from zoo.data.home import replace_file
from zoo.data.sources.known import remember


def test_where_nothing_can_be_written_it_is_found_again_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file, so that no folder can be there")
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    made = iter([7, 8])
    assert [remember(["key"], lambda: next(made)) for _ in range(2)] == [7, 8]


def test_nothing_is_left_of_a_file_that_cannot_be_put_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(RuntimeError, match="taken: cannot be written: Is a directory"):
        replace_file(tmp_path / "taken", "content")
    assert list(tmp_path.iterdir()) == [tmp_path / "taken"]
