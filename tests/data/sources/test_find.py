"""Where files are looked for, and what a task's splits are read from."""

import os
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict

from zoo.data.sources.find import load_rows
from zoo.data.task import Task, read_task
from zoo.examples.form import inputs


def task(**source: Any) -> Task:
    changes = {key: source.pop(key) for key in ("columns", "labels") if key in source}
    return read_task({"objective": "causal_lm", "source": source, **changes}, "task")


@pytest.fixture(autouse=True)
def two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory and a $ZOO_DATA, each with a file that the other has too."""
    for name in ("here", "data"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "both.txt").write_text(f"{name}\n")
        (tmp_path / name / f"{name}.txt").write_text(f"{name}\n")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("ZOO_DATA", str(tmp_path / "data"))


def first_text(file: str, data_dir: Path | None = None) -> str:
    rows = load_rows(task(files={"validation": file}), inputs(), data_dir)
    return str(next(iter(rows["validation"]))["text"])


def test_a_file_is_looked_for_under_zoo_data_then_here(tmp_path: Path) -> None:
    assert first_text("both.txt") == "data"
    assert first_text("here.txt") == "here"
    assert first_text(str(tmp_path / "here" / "both.txt")) == "here"


def test_with_a_data_folder_given_only_there(tmp_path: Path) -> None:
    assert first_text("both.txt", tmp_path / "here") == "here"
    with pytest.raises(ValueError, match="no such file 'data.txt'") as refusal:
        first_text("data.txt", tmp_path / "here")
    assert str(tmp_path / "data") not in str(refusal.value)


def test_a_missing_file_names_every_place_tried(tmp_path: Path) -> None:
    with pytest.raises(ValueError) as refusal:
        first_text("no.txt")
    assert str(refusal.value) == (
        f"source.files.validation: no such file 'no.txt'; looked for {tmp_path}/data/no.txt, {tmp_path}/here/no.txt; "
        "give --data DIR or set ZOO_DATA"
    )


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "here" / "pipe")
    (tmp_path / "here" / "empty").mkdir()
    with pytest.raises(ValueError, match="source.files.validation: .*empty is a folder without a data file"):
        first_text("empty")
    with pytest.raises(ValueError, match="pipe is not a regular file"):
        first_text("pipe")


@pytest.mark.parametrize("kind", [Dataset, DatasetDict])
def test_a_folder_of_save_to_disk_is_refused_as_such(kind: type, tmp_path: Path) -> None:
    saved = Dataset.from_dict({"text": ["one", "two"]})
    (saved if kind is Dataset else DatasetDict(train=saved)).save_to_disk(tmp_path / "here" / "saved")
    with pytest.raises(ValueError, match="saved.* was written by datasets' save_to_disk, .*; write each split with"):
        first_text("saved")


def test_files_of_columns_go_line_by_line_together(tmp_path: Path) -> None:
    (tmp_path / "here" / "a.en").write_text("one\n\nthree\nfour\n")
    (tmp_path / "here" / "a.de").write_text("eins\n\ndrei\n \n")
    rows = load_rows(
        task(files={"test": {"en": "a.en", "de": "a.de"}}, columns={"source": "de", "target": "en"}), inputs()
    )
    assert list(rows["test"]) == [
        {"source": "eins", "target": "one"},
        {"source": "", "target": ""},
        {"source": "drei", "target": "three"},
        {"source": " ", "target": "four"},
    ]


def test_files_of_columns_must_be_equally_long(tmp_path: Path) -> None:
    (tmp_path / "here" / "a.en").write_text("one\ntwo\n")
    (tmp_path / "here" / "a.de").write_text("eins\n")
    rows = load_rows(task(files={"test": {"source": "a.en", "target": "a.de"}}), inputs())
    with pytest.raises(
        ValueError, match=r"source.files.test: the files must have the same number of rows, .*a.en has 2, .*a.de has 1"
    ):
        list(rows["test"])


def test_rows_are_read_when_first_asked_for(tmp_path: Path) -> None:
    (tmp_path / "here" / "bad.txt").write_bytes(b"\xff")
    rows = load_rows(task(files={"test": "bad.txt"}), inputs())
    assert rows["test"].fingerprint
    with pytest.raises(ValueError, match="not UTF-8"):
        list(rows["test"])


def test_only_the_splits_asked_for_are_given() -> None:
    chosen = load_rows(task(builtin="numbers"), inputs(), splits=["test"])
    assert list(chosen) == ["test"]
    with pytest.raises(ValueError, match=r"source: unknown split 'tset' \(did you mean 'test'\?\)"):
        load_rows(task(builtin="numbers"), inputs(), splits=["tset"])


def test_the_fingerprint_follows_bytes_options_and_split(tmp_path: Path) -> None:
    def fingerprint(split: str = "train", **source: Any) -> str:
        return load_rows(task(**{"files": {"train": "t.txt"}, **source}), inputs())[split].fingerprint

    path = tmp_path / "here" / "t.txt"
    path.write_text("one\n")
    first = fingerprint()
    os.utime(path, (0, 0))
    assert fingerprint() == first
    others = {
        fingerprint("validation"),
        fingerprint(documents="file"),
        fingerprint(validation=0.5),
    }
    path.write_text("two\n")
    others.add(fingerprint())
    assert len(others | {first}) == 5


def test_a_change_is_seen_though_size_and_time_are_as_before(tmp_path: Path) -> None:
    found = []
    for text in ("one\n", "two\n"):
        (tmp_path / "t.txt").write_text(text)
        os.utime(tmp_path / "t.txt", (5, 5))
        found.append(load_rows(task(files={"test": "t.txt"}), inputs(), tmp_path)["test"].fingerprint)
    assert found[0] != found[1]


@pytest.mark.parametrize("lacking", ["a.jsonl", "b.jsonl"])
def test_files_of_a_split_have_the_same_columns_but_for_labels_of_a_test_split(tmp_path: Path, lacking: str) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        label = "" if name == lacking else ', "label": "x"'
        (tmp_path / name).write_text(f'{{"text": "one"{label}}}\n')
    rows = load_rows(task(files={"train": "*.jsonl"}), inputs(), tmp_path)["train"]
    with pytest.raises(ValueError, match=r"b.jsonl: it has text.*, but .*a.jsonl has text.*; name those to read under"):
        list(rows)
    rows = load_rows(task(files={"test": "*.jsonl"}, labels=["x", "y"]), inputs(), tmp_path)["test"]
    assert sorted(row["label"] for row in rows) == [-1, 0]


def test_a_split_that_one_mixed_source_has_is_read_from_that_one(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("one\ntwo\nthree\n")
    mix = {"both": {"files": {"train": "t.txt", "test": "t.txt"}}, "one": {"files": {"train": "t.txt"}, "weight": 2}}
    rows = load_rows(task(mix=mix), inputs(), tmp_path)
    assert rows["train"].weights == {"both": 1, "one": 2} and rows["test"].weights == {"both": 1}


def test_a_moved_file_keeps_its_fingerprint(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same.txt").write_text("text\n")
    prints = {
        load_rows(task(files={"test": "same.txt"}), inputs(), tmp_path / name)["test"].fingerprint
        for name in ("a", "b")
    }
    assert len(prints) == 1


def test_a_repository_is_asked_only_where_files_are_missing() -> None:
    assert list(load_rows(task(files={"test": "both.txt"}, hub="org/name"), inputs())) == ["test"]
    with pytest.raises(
        ValueError, match="source.hub: 'org/name' cannot be read: .*; and source.files.test: no such file 'no.txt'"
    ):
        load_rows(task(files={"test": "no.txt"}, hub="org/name"), inputs())


def test_a_repository_without_a_network_is_one_message(no_network: list[str]) -> None:
    with pytest.raises(ValueError, match="source.hub: 'org/name:part' cannot be read: ") as refusal:
        load_rows(task(hub="org/name:part"), inputs())
    assert "\n" not in str(refusal.value)


def texts(files: Any, split: str = "test") -> list[str]:
    return [row["text"] for row in load_rows(task(files={split: files}), inputs())[split]]


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """A folder of data files, one of them in a folder of its own, and of what is no data."""
    folder = tmp_path / "here" / "wiki"
    (folder / "more").mkdir(parents=True)
    for name in ("b.txt", "a.txt", "more/c.txt", ".hidden.txt", "README.rst"):
        (folder / name).write_text(f"{name}\n")
    (folder / "d.jsonl").write_text('{"text": "d.jsonl"}\n')
    return folder


def test_a_folder_is_all_its_data_files_by_name(several: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert texts("wiki") == ["a.txt", "b.txt", "d.jsonl", "more/c.txt"]
    assert "wiki: skipped files that no format reads: README.rst" in caplog.text


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ("wiki/*.txt", ["a.txt", "b.txt"]),
        ("wiki/**/*.txt", ["a.txt", "b.txt", "more/c.txt"]),
        (["wiki/b.txt", "wiki/*.jsonl"], ["b.txt", "d.jsonl"]),
    ],
)
def test_patterns_and_lists_name_several_files(several: Path, files: Any, found: list[str]) -> None:
    assert texts(files) == found


def test_the_data_folder_is_no_pattern(tmp_path: Path) -> None:
    for name in ("data[1]", "data1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "t.txt").write_text(name)
    assert first_text("*.txt", tmp_path / "data[1]") == "data[1]"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ("wiki/*.csv", r"no file matches 'wiki/\*.csv'; looked for .*/data/wiki/\*.csv, .*/here/wiki/\*.csv"),
        (["wiki/*.txt", "wiki/a.txt"], r"a.txt is named twice, by 'wiki/\*.txt' and by 'wiki/a.txt'"),
        ([], "the list names no file"),
        ("", "source.files.test: it is empty; give a path"),  # else the data folder, with all that lies in it
    ],
)
def test_what_names_no_file_or_one_twice_is_refused(several: Path, files: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        texts(files)


def test_files_of_columns_may_be_many_and_must_be_equally_many(several: Path) -> None:
    pairs = {"source": "wiki/?.txt", "target": ["wiki/b.txt", "wiki/a.txt"]}
    found = load_rows(task(files={"test": pairs}), inputs())["test"]
    assert [(row["source"], row["target"]) for row in found] == [("a.txt", "b.txt"), ("b.txt", "a.txt")]
    with pytest.raises(ValueError, match="source.files.test: .*'source' has 2, 'target' has 1"):
        load_rows(task(files={"test": {**pairs, "target": "wiki/a.txt"}}), inputs())


def mixed(**changes: Any) -> dict[str, Any]:
    wiki = {"files": {"train": "wiki/?.txt"}, "validation": 0.5, "weight": 3}
    return {"wiki": {**wiki, **changes}, "more": {"files": {"train": "wiki/d.jsonl", "validation": "wiki/more"}}}


def test_the_splits_of_a_mixture_are_those_of_its_sources(several: Path) -> None:
    found = load_rows(task(mix=mixed()), inputs())
    assert found["train"].weights == {"wiki": 3, "more": 1} and found["train"].inputs == ["text"]
    texts = {split: {row["text"] for row in rows} for split, rows in found.items()}
    assert texts["train"] | texts["validation"] == {"a.txt", "b.txt", "d.jsonl", "more/c.txt"}
    assert "more/c.txt" in texts["validation"] and "d.jsonl" in texts["train"] and len(texts["train"]) == 2


def test_a_mixed_source_may_have_columns_of_its_own(several: Path) -> None:
    (several / "body.jsonl").write_text('{"body": "its own"}\n{"body": "another"}\n')
    both = {"train": "wiki/body.jsonl", "validation": "wiki/body.jsonl"}
    own = mixed(files=both, columns={"text": "body"})
    for columns in ({}, {"text": "text"}):  # a run writes down those that it has found
        found = load_rows(task(mix=own, columns=columns), inputs())
        assert [row["text"] for row in found["train"]] == ["its own", "another", "d.jsonl"]
    with pytest.raises(ValueError, match="task.source.columns: only for sources of a mix; set task.columns"):
        read_task({"objective": "causal_lm", "source": {"builtin": "pydocs", "columns": {"text": "body"}}}, "task")
    with pytest.raises(ValueError, match="task.source.mix.wiki.columns.text: a list must name two or more columns"):
        task(mix=mixed(columns={"text": ["body"]}))


def test_the_fingerprint_of_a_mixture_follows_its_weights(several: Path) -> None:
    one, other = (load_rows(task(mix=mixed(weight=weight)), inputs())["train"] for weight in (1, 2))
    assert one.fingerprint != other.fingerprint and one.cache_name == other.cache_name


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"mix": mixed(weight=0)}, r"source.mix.wiki.weight: must be a number above 0, got 0"),
        ({"mix": mixed(weight="3")}, r"source.mix.wiki.weight: must be a number above 0, got '3'"),
        ({"mix": mixed(weight=float("inf"))}, r"source.mix.wiki.weight: must be a number above 0, got inf"),
        ({"mix": mixed(weight=1e-300)}, r"source.mix.wiki.weight: 1e-300 is less than a billionth of all weights"),
        ({"mix": mixed(weight=10**400)}, r"mix.more.weight: 1 is less than a billionth .*; leave the source out"),
        ({"mix": {}}, r"source.mix: names no source"),
        ({"mix": mixed(mix=mixed())}, r"source.mix.wiki: a source of a mix cannot be a mix itself"),
        ({"mix": mixed(language="de")}, r"wiki.language: all sources split .*; set task.source.language"),
        ({"mix": mixed(wieght=3)}, r"unknown key 'wieght' .did you mean 'weight'..; allowed: (?!.*(language|mix))"),
        ({"mix": mixed(), "builtin": "numbers"}, r"source: 'mix' does not combine with 'files', 'hub' or 'builtin'"),
        ({"mix": mixed(files={"train": "no.txt"})}, r"^source.mix.wiki.files.train: no such file 'no.txt'; looked for"),
        ({"mix": mixed(files={})}, r"^source.mix.wiki: no data; name 'files', 'hub' or 'builtin'$"),
        ({"mix": mixed(files={"test": "both.txt"})}, r"source.mix.wiki: no split 'train', which the others have"),
        ({"mix": mixed(builtin="numbers", files=None)}, r"sources have different columns; name them under 'columns'"),
    ],
)
def test_a_mixture_that_cannot_be_is_refused(several: Path, source: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        _ = load_rows(task(**source), inputs())["train"].inputs
