"""Images of a table: copied into the cache once, some rows at a time."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from zoo.data.columns import picture_table
from zoo.data.columns.picture_table import of_rows


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))


def test_images_are_copied_once_and_then_read_from_the_cache(monkeypatch: pytest.MonkeyPatch):
    def stored(digest: str, *values: bytes) -> bytes:
        rows = of_rows((value for value in values), digest, None, "a.parquet")  # a generator cannot be pickled
        return rows.stored(len(rows) - 1)[0]

    assert stored("a", b"one", b"two") == stored("a") == b"two"
    assert stored("b", b"three") == b"three"
    monkeypatch.setattr(picture_table, "VERSION", picture_table.VERSION + 1)
    assert stored("a", b"four") == b"four"


def test_only_some_images_are_in_memory_at_once():
    values = (bytes([number % 256]) * 100_000 for number in range(500))
    of_rows([b"one"], "imports", None, "a.parquet")
    tracemalloc.start()
    try:
        assert len(of_rows(values, "large", None, "a.parquet")) == 500
        assert tracemalloc.get_traced_memory()[1] < 25_000_000
    finally:
        tracemalloc.stop()


def test_a_row_may_lack_an_image_or_hold_another_form_than_the_row_before(tmp_path: Path):
    (tmp_path / "a.png").write_bytes(b"file")
    both = {"bytes": b"bytes", "path": "a.png"}
    values = [None, "a.png", "", b"bytes", b"", both, {"bytes": None, "path": None}, {"bytes": [0, 255], "path": ""}]
    rows = of_rows(values, "forms", tmp_path, "t.jsonl")
    assert [rows.stored(number)[0] for number in (1, 3, 5, 7)] == [b"file", b"bytes", b"bytes", b"\0\xff"]
    for number in (0, 2, 4, 6):
        with pytest.raises(ValueError, match=f"^t.jsonl: row {number + 1}: there is no image$"):
            rows.stored(number)


def test_an_error_of_the_rows_is_raised_as_it_is_and_leaves_nothing_in_the_cache():
    def broken() -> Iterator[bytes]:
        yield b"one"
        raise RuntimeError("hub:a/b: row 2: cannot be read")

    with pytest.raises(RuntimeError, match="^hub:a/b: row 2: cannot be read$"):
        of_rows(broken(), "a", None, "hub:a/b")
    with pytest.raises(ValueError, match=r"^hub:a/b: row 1: expected the path of an image, its bytes, .*, got -1$"):
        of_rows([-1], "a", None, "hub:a/b")
    assert len(of_rows([b"one", b"two"], "a", None, "hub:a/b")) == 2


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(RuntimeError, match=r"cache/pictures: cannot be written: .*; set ZOO_CACHE to another folder"):
        of_rows([b"one"], "a", None, "a.parquet")
