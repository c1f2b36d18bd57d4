"""The hash of the image files that a table names, whatever their number."""

import tracemalloc
from pathlib import Path

import pytest

from zoo.data.formats.format import ReadOptions
from zoo.data.sources import image_files
from zoo.data.sources.file_cache import Stat
from zoo.data.sources.files import parts_of


def test_the_metadata_of_all_image_files_are_not_in_memory_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(image_files, "stat_of", lambda path: Stat(*(hash(path) + each for each in range(4))))
    monkeypatch.setattr(Stat, "is_young", False)
    (tmp_path / "t.csv").write_text("image\n" + "".join(f"{number}.png\n" for number in range(3000)))
    (part,) = parts_of(tmp_path / "t.csv", ReadOptions())
    (found,) = image_files.digest_image_files(part, "image")
    tracemalloc.start()
    try:
        assert image_files.digest_image_files(part, "image") == [found]
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
