"""What decides how files are read: their compression, and the options and columns of a task."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from zoo.data.sources.find import load_rows
from zoo.data.task import Task, read_task
from zoo.examples.form import inputs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder that files are looked for in, with a file."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here.txt").write_text("here\n")
    return tmp_path


def task(columns: dict[str, str] | None = None, **source: Any) -> Task:
    return read_task({"objective": "causal_lm", "source": source, "columns": columns or {}}, "task")


def test_a_compressed_file_is_read_whole_however_large_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"line {number}" for number in range(40)]
    (folder / "long.txt.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    monkeypatch.setattr("zoo.data.sources.file_cache.PART", 8)
    rows = load_rows(task(files={"validation": "long.txt.gz"}), inputs(), folder)["validation"]
    assert [row["text"] for row in rows] == lines


def test_a_tokenizer_is_kept_for_files_that_are_read_in_one_way(folder: Path) -> None:
    ways: list[dict[str, Any]] = [{}, {"documents": "file"}, {"validation": 0.5}]
    given = [task(files={"train": "here.txt"}, **way) for way in ways]
    assert len({load_rows(each, inputs(), folder)["train"].cache_name for each in given}) == len(ways)


def test_columns_that_a_task_names_are_all_read_though_no_one_form_has_them_all(folder: Path) -> None:
    (folder / "t.jsonl").write_text('{"text": "a", "prompt": "b"}\n')
    for named, found in (({}, ["text"]), ({"prompt": "prompt", "text": "text"}, ["prompt", "text"])):
        given, forms = task(files={"test": "t.jsonl"}, columns=named), [["text"], ["prompt", "text"]]
        assert load_rows(given, ["prompt", "text"], folder, forms=forms)["test"].inputs == found


def test_a_column_that_train_lacks_is_said_to_be_unread(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "alone.jsonl").write_text('{"text": "a", "label": "x"}\n{"text": "b", "label": "y"}\n')
    (folder / "pairs.jsonl").write_text('{"text": "a", "pair": "b", "label": "x"}\n')
    files, forms = {"train": "alone.jsonl", "validation": "pairs.jsonl"}, [["text", "pair"], ["text"]]
    for named in ({}, {"text": "text", "label": "label"}):
        caplog.clear()
        rows = load_rows(task(named, files=files), inputs(), folder, forms=[] if named else forms)["validation"]
        assert rows.inputs == ["text", "label"]
        said = f"pairs.jsonl: column 'pair' is not read, because {folder / 'alone.jsonl'} lacks it"
        assert (said in caplog.text) == (not named)
