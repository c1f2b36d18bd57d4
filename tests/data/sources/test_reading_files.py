"""What is read of files: texts of any length, columns that come late, one order of nested files."""

import bz2
import errno
import gzip
import lzma
import os
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import zstandard
from pyarrow import parquet

from zoo.data.sources.files import find_all
from zoo.data.sources.find import load_rows
from zoo.data.sources.settings import SourceSettings
from zoo.data.task import Task, read_task
from zoo.examples.form import inputs


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory with two files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    for name in ("both", "here"):
        Path(f"{name}.txt").write_text("more than four\n")


def task(**source: Any) -> Task:
    changes = {key: source.pop(key) for key in ("columns",) if key in source}
    return read_task({"objective": "causal_lm", "source": source, **changes}, "task")


def texts_of(**source: Any) -> dict[str, list[str]]:
    found = load_rows(task(**source), inputs())
    return {split: [row["text"] for row in rows] for split, rows in found.items()}


def test_the_end_of_the_only_text_is_held_out_however_long_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("long.txt").write_text("".join(f"line {n}\n" for n in range(10)))
    short = texts_of(files={"train": "long.txt"}, documents="file", validation=0.33)
    monkeypatch.setattr("zoo.data.formats.text.LONGEST", 20)
    long = texts_of(files={"train": "long.txt"}, documents="file", validation=0.33)
    assert {split: "".join(rows) for split, rows in long.items()} == {split: rows[0] for split, rows in short.items()}
    assert [len(rows) for rows in long.values()] == [4, 2]


def test_a_long_text_of_several_columns_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.data.formats.text.LONGEST", 4)
    files = {"train": {"source": "both.txt", "target": "here.txt"}}
    with pytest.raises(ValueError, match="here.txt: too long for one row; write one row per line"):
        list(load_rows(task(files=files, documents="file"), inputs(), Path.cwd())["train"])


def test_a_folder_and_a_pattern_over_it_give_files_in_one_order(tmp_path: Path) -> None:
    for name in ("a/x.txt", "a-b/x.txt", "a.txt", "a/b/x.txt"):
        (tmp_path / "nested" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "nested" / name).write_text(f"{name}\n")
    named = [texts_of(files={"validation": str(tmp_path / each)}) for each in ("nested", "nested/**/*.txt")]
    assert named[0] == named[1] == {"validation": ["a/b/x.txt", "a/x.txt", "a-b/x.txt", "a.txt"]}


def test_linked_folders_are_read_once_and_cycles_end(tmp_path: Path) -> None:
    for name in ("corpus/a/x.txt", "elsewhere/y.txt", "elsewhere/.hidden/z.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")
    for link, to in {"b": "elsewhere", "c": "elsewhere", "d": "corpus/a", "up": "."}.items():
        (tmp_path / "corpus" / link).symlink_to(tmp_path / to)
    (tmp_path / "elsewhere/back").symlink_to(tmp_path / "corpus")
    (tmp_path / "corpus/.store/v1").mkdir(parents=True)
    (tmp_path / "corpus/.store/v1/v.txt").write_text("corpus/current/v.txt\n")
    (tmp_path / "corpus/current").symlink_to(".store/v1")  # hidden where it is
    assert texts_of(files={"validation": "corpus"}) == {
        "validation": ["corpus/a/x.txt", "elsewhere/y.txt", "corpus/current/v.txt"]
    }


def test_a_pattern_walks_linked_folders_as_a_folder_does(tmp_path: Path) -> None:
    for name in ("corpus/a/x.txt", "corpus/y.txt", "corpus/.hidden/z.txt", "elsewhere/v.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")
    for link, to in {"one": ".", "two": ".", "three": "../elsewhere"}.items():  # with two of them glob has no end
        (tmp_path / "corpus" / link).symlink_to(to)
    for named, missing in (("corpus/**/*.txt", 0), ("corpus/**", 0), ("c*/**/?.txt", 0), ("corpus/**/a/**", 2)):
        found = ["corpus/a/x.txt", "elsewhere/v.txt", "corpus/y.txt"]
        assert texts_of(files={"validation": named}) == {"validation": found[:-missing] if missing else found}
    assert texts_of(files={"validation": "corpus/one/tw*/*.txt"}) == {"validation": ["corpus/y.txt"]}


@pytest.mark.parametrize("named", ["corpus", "corpus/*.txt"])
def test_a_link_to_a_file_that_is_gone_is_refused(named: str) -> None:
    Path("corpus").mkdir()
    Path("corpus/a.txt").write_text("a\n")
    Path("corpus/b.txt").symlink_to("gone.txt")
    with pytest.raises(ValueError, match="corpus/b.txt is a broken link to gone.txt; restore that file"):
        texts_of(files={"validation": named})
    Path("corpus/gone.txt").write_text("gone\n")
    assert texts_of(files={"validation": named}) == {"validation": ["a", "gone", "gone"]}


@pytest.mark.parametrize("named", ["corpus", "corpus/**/*.txt"])
def test_a_folder_of_which_a_part_cannot_be_read_is_refused(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("corpus/closed").mkdir(parents=True)
    Path("corpus/a.txt").write_text("a\n")
    scan = os.scandir

    def refuse(path: str) -> Any:  # who runs tests may read any folder
        if Path(path).name == "closed":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(ValueError, match="corpus/closed: the folder cannot be read: permission denied"):
        texts_of(files={"validation": named})


@pytest.mark.parametrize("named", ["corpus", "corpus/**/*.txt", "corpus/listed/b.txt"])
def test_a_file_that_is_listed_but_may_not_be_reached_is_not_left_out(
    named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("corpus/listed").mkdir(parents=True)
    Path("corpus/a.txt").write_text("a\n")
    Path("corpus/listed/b.txt").write_text("b\n")
    stat = Path.stat

    def refuse(path: Path, **options: bool) -> os.stat_result:  # as in a folder that may be listed, but not entered
        if path.parent.name == "listed":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(PermissionError, match="listed/b.txt"):
        texts_of(files={"validation": named})


def test_a_column_that_later_rows_alone_have_is_not_lost(tmp_path: Path) -> None:
    rows = '{"text": "a", "other": 1}\n{"text": "b", "label": "x"}\n'
    Path("rows.jsonl").write_text(rows)
    with pytest.raises(ValueError, match="jsonl: line 2: column 'label' is missing in the first row, so it"):
        texts_of(files={"validation": "rows.jsonl"})
    assert texts_of(files={"validation": "rows.jsonl"}, columns={"text": "text"}) == {"validation": ["a", "b"]}
    for columns in ({}, {"text": "text", "label": "label"}):  # a test split may lack labels, but then in all rows
        with pytest.raises(ValueError, match="jsonl: line 2: column 'label' is missing in the first row, so it"):
            texts_of(files={"test": "rows.jsonl"}, columns=columns)
    Path("rows.jsonl").write_text('{"text": "a"}\n{"text": "b", "more": 2}\n')
    assert texts_of(files={"validation": "rows.jsonl"}) == {"validation": ["a", "b"]}


def test_a_form_that_train_does_not_have_is_not_missed_in_another_split() -> None:
    Path("train.jsonl").write_text('{"text": "a"}\n')
    Path("rows.jsonl").write_text('{"text": "b"}\n{"text": "c", "prompt": "d"}\n')
    files = {"train": "train.jsonl", "validation": "rows.jsonl"}
    rows = load_rows(task(files=files), ["prompt", "text"], forms=[["prompt", "text"], ["text"]])
    assert list(rows["validation"]) == [{"text": "b"}, {"text": "c"}]


EMPTY = {
    "a.jsonl": b"",
    "c.jsonl": b" \n\n",
    "d.jsonl.gz": gzip.compress(b""),
    "e.jsonl.xz": lzma.compress(b""),
    "f.jsonl.zst": zstandard.ZstdCompressor().compress(b"\n"),
    "g.jsonl.bz2": bz2.compress(b""),
}


@pytest.mark.parametrize("many", [256, 2])  # files that have a shard each, or share some
def test_empty_files_among_others_are_left_out_and_named_once(
    tmp_path: Path, many: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("zoo.data.sources.groups.MANY", many)
    (tmp_path / "some").mkdir()
    for name, content in EMPTY.items():
        (tmp_path / "some" / name).write_bytes(content)
    for name in ("b", "h"):
        (tmp_path / "some" / f"{name}.jsonl").write_text(f'{{"text": "{name}"}}\n')
    assert texts_of(files={"validation": "some"}) == {"validation": ["b", "h"]}
    said = [line for line in caplog.messages if "without rows" in line]
    named = ", ".join(f"{tmp_path}/some/{name}" for name in sorted(EMPTY)[:5])
    assert said == [f"skipped files without rows: {named}, and 1 more"]


@pytest.mark.parametrize("name", [name for name in EMPTY if name != "c.jsonl"])
def test_files_that_are_all_empty_are_refused(tmp_path: Path, name: str) -> None:
    for prefix in "xy":
        (tmp_path / f"{prefix}{name}").write_bytes(EMPTY[name])
    with pytest.raises(ValueError, match=f"x{name}: .*(the file is empty|it has no rows)"):
        texts_of(files={"validation": [f"x{name}", f"y{name}"]})


def test_a_damaged_small_file_is_refused_and_not_left_out(tmp_path: Path) -> None:
    (tmp_path / "bad.txt.gz").write_bytes(gzip.compress(b"a line\n")[:-9])
    with pytest.raises(ValueError, match="bad.txt.gz: line 2: the file cannot be read"):
        texts_of(files={"validation": ["here.txt", "bad.txt.gz"]})


def test_a_table_of_a_header_alone_is_left_out(tmp_path: Path) -> None:
    for name, rows in {"a": "", "b": "1,one\n", "c": "\n"}.items():
        (tmp_path / f"{name}.csv").write_text(f"id,text\n{rows}")
    (tmp_path / "d.csv").write_text("1,two\n")
    assert texts_of(files={"validation": "[a-c].csv"}) == {"validation": ["one"]}
    assert texts_of(files={"validation": "[bd].csv"}, header=["number", "text"])["validation"][-1] == "two"


def test_a_small_table_with_carriage_returns_is_refused_and_not_left_out(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/a.csv").write_bytes(b"text\none\n")
    (tmp_path / "tables/b.csv").write_bytes(b"text\rtwo\rthree\r")
    with pytest.raises(ValueError, match=r"b\.csv"):
        texts_of(files={"validation": "tables"})


def test_a_parquet_column_that_stands_twice_is_refused(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table([["a"], ["b"]], names=["text", "text"]), tmp_path / "twice.parquet")
    with pytest.raises(ValueError, match=r"twice\.parquet: column 'text' is named twice"):
        texts_of(files={"validation": "twice.parquet"})


def test_a_home_that_is_not_known_is_a_name_like_any_other() -> None:
    with pytest.raises(ValueError, match=r"source\.files\.train: no such file '~no such user/x'; looked for"):
        texts_of(files={"train": "~no such user/x"})


def labeled(test: list[str], train: list[str]) -> list[dict[str, Any]]:
    """The rows of a test split of a classification."""
    for name, lines in {"train": train, "test": test}.items():
        Path(f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    source = {"files": {"train": "train.jsonl", "test": "test.jsonl"}}
    return list(load_rows(read_task({"objective": "classification", "source": source}, "task"), inputs())["test"])


def test_a_class_called_minus_one_is_no_hidden_label() -> None:
    lines = [f'{{"text": "row {n}", "label": "{n % 3 - 1}"}}' for n in range(9)]
    assert [row["label"] for row in labeled(lines, lines)] == [0, 1, 2] * 3
    hidden = [f'{{"text": "row {n}", "label": "-1"}}' for n in range(3)]
    train = [f'{{"text": "row {n}", "label": "{n % 2}"}}' for n in range(4)]
    assert [row["label"] for row in labeled(hidden, train)] == [-1] * 3


def test_a_label_of_half_a_character_is_refused_by_its_row() -> None:
    lines = ['{"text": "a", "label": "ok"}', '{"text": "b", "label": "\\ud800"}']
    with pytest.raises(
        ValueError, match=r"jsonl: line 2: 'label': character 1 is a lone surrogate; expected text in UTF-8"
    ):
        labeled(lines, lines)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonlines", "a.jl", "a.ndjson.gz"])
def test_a_json_object_a_line_is_read_so_by_its_files_name(name: str) -> None:
    content = b'{"text": "a"}\n{"text": "b"}\n'
    Path(name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert texts_of(files={"validation": name}) == {"validation": ["a", "b"]}


def test_json_objects_are_not_taken_for_text_because_of_a_files_name() -> None:
    for name, line in (("a.part0", '{"text": "a"}'), ("b.part0", '{"text": "a"'), ("c.part0", "[1]")):
        Path(name).write_text(line + "\n")
    with pytest.raises(
        ValueError, match=r"a.part0: its first line is a JSON object, but '.part0' files are read as text; set"
    ):
        texts_of(files={"validation": "a.part0"})
    for source in ({"files": {"validation": "b.part0"}}, {"files": {"validation": "c.part0"}}):
        assert len(texts_of(**source)["validation"]) == 1
    Path("deep.part0").write_text('{"a":' * 100_000 + "\n")
    assert len(texts_of(files={"validation": "deep.part0"})["validation"]) == 1
    assert len(texts_of(files={"validation": "a.part0"}, documents="file")["validation"]) == 1
    assert texts_of(files={"validation": "a.part0"}, format="text") == {"validation": ['{"text": "a"}']}
    assert texts_of(files={"validation": "a.part0"}, format="jsonl") == {"validation": ["a"]}


def test_with_a_data_folder_files_are_looked_for_there_alone(tmp_path: Path) -> None:
    assert find_all("here.txt", None, "source.files.train")[0] == [tmp_path / "here.txt"]
    with pytest.raises(FileNotFoundError, match=r"looked for \S+/data/here.txt; give --data DIR"):
        find_all("here.txt", tmp_path / "data", "source.files.train")


def test_each_split_has_the_header_that_is_said_of_it() -> None:
    source = SourceSettings(header={"train": ["a", "b"], "test": ["c"]})
    assert [source.reading(split).header for split in ("train", "validation", "test")] == [("a", "b"), None, ("c",)]


def test_the_lines_of_a_table_are_not_read_as_the_texts_of_a_column() -> None:
    for name in ("a.txt", "a.jsonl", "a.csv.gz"):
        Path(name).write_bytes(b"one\n" if name != "a.csv.gz" else gzip.compress(b"one\n"))
    for name, kind in (("a.jsonl", "jsonl"), ("a.csv.gz", "csv")):
        files = {"validation": {"text": "a.txt", "pair": name}}
        said = rf"^source.files.validation.pair: .*{name} would be read as text, not as {kind}; name one table, and its"
        with pytest.raises(ValueError, match=said):
            texts_of(files=files)
        assert texts_of(files=files, format="text") == {"validation": ["one"]}
    with pytest.raises(ValueError, match=r"^source.files.validation.text: .*a.txt would be read as text, not as tsv"):
        texts_of(files={"validation": {"text": "a.txt"}}, format="tsv")
