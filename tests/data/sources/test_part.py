"""Files that are others by the time they are read than when their hash was taken."""

import gzip
from pathlib import Path

import pytest
from datasets import Dataset

from zoo.data.formats.format import ReadOptions
from zoo.data.sources import file_cache
from zoo.data.sources.file_cache import hashed_ranges
from zoo.data.sources.part import ColumnFiles, FilePart

HEADS = {"a.tsv": "x\ty", "b.tsv": "y\tx"}


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "one\ntwo\n")
    rows = FilePart(hashed_ranges(path, cut=True)[0], ReadOptions()).rows([])
    next(rows)
    path.write_text("another text\n")
    with pytest.raises(ValueError, match="a.txt: the file changed while it was read"):
        list(rows)


def test_files_of_columns_have_a_digest_of_their_names_options_and_whole_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_cache, "PART", 4)  # bytes of a line_range
    one, other = (write(tmp_path, name, f"one\n{name}\n") for name in ("a.txt", "b.txt"))
    given = [({"source": one, "target": other}, "line"), ({"source": other, "target": one}, "line")]
    given += [({"source": one, "target": one}, "line"), ({"source": one, "target": other}, "blank_line")]
    found = {ColumnFiles(paths, ReadOptions(documents=documents), "source.files").digest for paths, documents in given}
    assert len(found) == 4


def test_equal_bytes_that_are_read_differently_have_different_digests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_cache, "PART", 4)  # bytes of a line range: the header has one to itself
    paths = [write(tmp_path, name, f"{head}\n1\t2\n") for name, head in HEADS.items()]
    below = [FilePart(hashed_ranges(path, cut=True)[1], ReadOptions()) for path in paths]
    assert below[0].of_bytes == below[1].of_bytes and below[0].digest != below[1].digest
    table, text = (write(tmp_path, name, "text\none\n") for name in ("c.tsv", "c.txt"))
    parts = [FilePart(hashed_ranges(path, cut=False)[0], ReadOptions()) for path in (table, text)]
    assert parts[0].columns == parts[1].columns and parts[0].digest != parts[1].digest


def test_a_file_of_a_column_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "one\ntwo\n")
    rows = ColumnFiles({"source": path}, ReadOptions(), "source.files").rows([])
    next(rows)
    path.write_text("another text\n")
    with pytest.raises(ValueError, match="a.txt: the file changed while it was read"):
        list(rows)


def test_what_is_wrong_in_a_file_that_changed_is_said_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"text": "one"}\n' * 3)
    part = FilePart(hashed_ranges(path, cut=True)[0], ReadOptions())
    path.write_text('{"text": "one"}\n{"te')  # somebody writes it anew
    with pytest.raises(ValueError, match=r"a.jsonl: the file changed while it was read \(line 2: not JSON.*\); start"):
        list(part.rows(["text"]))


def test_a_row_that_is_wrong_in_a_file_that_changed_is_not_looked_for(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"text": "one"}\n' * 3)
    part = FilePart(hashed_ranges(path, cut=True)[0], ReadOptions())
    path.write_text('{"text": "one"}\n')
    with pytest.raises(ValueError, match="a.jsonl: the file changed while it was read; start again"):
        part.line(3)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.json", "a.parquet", "a.txt.gz"])
def test_a_file_that_is_deleted_is_named_once(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "a.parquet":
        Dataset.from_dict({"text": ["a", "b"]}).to_parquet(path)
    else:
        write(tmp_path, name, gzip.compress(b"one\n") if name.endswith("gz") else '[{"text": "one"}]')
    part = FilePart(hashed_ranges(path, cut=False)[0], ReadOptions(format="json" if name == "a.json" else None))
    path.unlink()
    with pytest.raises(ValueError) as refusal:
        list(part.rows(["text"]))
    assert str(refusal.value) == f"{path}: the file was deleted while it was read; put it back and start again"
    with pytest.raises(ValueError) as refusal:
        hashed_ranges(path, cut=False)
    assert str(refusal.value) == f"{path}: the file cannot be read: no such file or directory"


def test_a_file_that_changed_since_it_was_hashed_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "one\ntwo\n")
    (line_range,) = hashed_ranges(path, cut=False)
    path.write_text("another text\n")  # its rows would be kept under the hash of what stood there before
    with pytest.raises(ValueError, match="a.txt: the file changed while it was read"):
        list(FilePart(line_range, ReadOptions()).rows([]))
