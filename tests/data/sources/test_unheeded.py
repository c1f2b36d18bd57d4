"""Options of reading that none of a source's files is read by are refused."""

from pathlib import Path
from typing import Any

import pytest

from zoo.data.sources.find import load_rows
from zoo.data.task import Task, read_task
from zoo.examples.form import inputs


def task(**source: Any) -> Task:
    return read_task({"objective": "causal_lm", "source": source}, "task")


@pytest.mark.parametrize(
    ("option", "value", "heeding", "refused", "read"),
    [
        ("quoting", "none", "csv, tsv", "lines.jsonl", "table.csv"),
        ("header", ["text"], "conll, csv, tsv", "lines.txt", "table.csv"),
        ("documents", "file", "text", "table.csv", "lines.txt"),
    ],
)
def test_an_option_by_which_no_file_is_read_is_refused(
    tmp_path: Path, option: str, value: Any, heeding: str, refused: str, read: str
) -> None:
    (tmp_path / "lines.txt").write_text("a\nb\n")
    (tmp_path / "lines.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    (tmp_path / "table.csv").write_text("text\na\nb\n")
    said = f"{option}: none of the source's files is read by it, only files of the format {heeding}; leave it out"
    with pytest.raises(ValueError, match=f"^source.{said}"):
        load_rows(task(files={"train": refused}, **{option: value}), inputs(), tmp_path)
    load_rows(task(files={"train": refused, "validation": read}, **{option: value}), inputs(), tmp_path)
    parts = {"table": {"files": {"train": refused}}, "text": {"files": {"train": read}}}
    load_rows(task(mix=parts, **{option: value}), inputs(), tmp_path)
    with pytest.raises(ValueError, match=f"^source.mix.table.{said}"):
        load_rows(task(mix={**parts, "table": {**parts["table"], option: value}}), inputs(), tmp_path)
