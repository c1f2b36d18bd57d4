"""Data that was cloned without Git LFS: named as such, by every reader, before anything is trained on it."""

from pathlib import Path

import pytest

from zoo.data.columns.pictures import decode, stored_at
from zoo.data.formats.format import ReadOptions, formats
from zoo.data.formats.lines import LineRange
from zoo.data.sources.file_cache import is_empty

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:74541fa3bddf35c2ed35a7c2\nsize 1302138752\n"
REFUSAL = r"{}: is a Git LFS pointer, without the file's content; run `git lfs pull` to get it"


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
@pytest.mark.parametrize("name", formats.names())
def test_a_pointer_is_named_as_one_in_every_format(tmp_path: Path, name: str, ending: str) -> None:
    path = tmp_path / f"data{ending}"
    path.write_text(POINTER)
    with pytest.raises(ValueError, match=REFUSAL.format(path)):
        [*formats.build(name).rows(LineRange(path), ReadOptions())]
    with pytest.raises(ValueError, match=REFUSAL.format(path)):
        is_empty(path, has_header=True)


def test_an_image_that_is_a_pointer_is_named_as_one(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text(POINTER)
    with pytest.raises(ValueError, match=REFUSAL.format(f"row 1: {tmp_path / 'a.png'}")):
        decode(*stored_at("a.png", tmp_path, "row 1"), 4)


def test_a_text_that_begins_like_a_pointer_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(POINTER + "words of a manual about Git LFS\n" * 40)
    assert len([*formats.build("text").rows(LineRange(path), ReadOptions())]) > 40
