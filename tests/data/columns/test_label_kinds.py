"""Several classes a row, and numbers: read from files, kept on disk, refused with their row."""

import math
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from zoo.data.columns.columns import present_classes
from zoo.data.sources.find import load_rows
from zoo.data.sources.splits import numbering
from zoo.data.store.split import Split
from zoo.data.store.store import open_store
from zoo.data.task import read_task
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.form import forms, inputs

HEADER = "text\tlabel\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))


def opened(folder: Path, labels: Any, train: str, test: str = "") -> dict[str, Split]:
    (folder / "train.tsv").write_text(HEADER + train, "utf-8")
    (folder / "test.tsv").write_text(test or HEADER + train, "utf-8")
    files = {"train": "train.tsv", "test": "test.tsv"}
    task = read_task({"objective": "classification", "source": {"files": files}, "labels": labels}, "task")
    rows = load_rows(task, inputs(), folder, ["train", "test"])
    tokenizer = Tokenizer.train(tokenizers.parse("characters"), ["one two"])
    return open_store(rows, forms["text"].stored, tokenizer)


def labels_of(split: Split) -> list[Any]:
    return [split.lengths.label(document) for document in range(split.lengths.documents)]


TRAIN = "".join(f"text {i}\t{label}\n" for i, label in enumerate(["b, a", "", "c", "a"] * 9))


def test_several_classes_are_lists_of_numbers(tmp_path: Path):
    splits = opened(tmp_path, "several", TRAIN, HEADER + "x\tc\ny\t\n")
    assert splits["train"].labels == ("a", "b", "c")
    assert set(labels_of(splits["train"])) == {(0, 1), (), (2,), (0,)}
    assert labels_of(splits["test"]) == [(2,), ()]
    hidden = opened(tmp_path, "several", TRAIN, HEADER + "x\t\ny\t\n")["test"]  # a split that keeps them to itself
    assert labels_of(hidden) == [(-1,), (-1,)]


def test_few_labels_may_stand_together_in_many_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(numbering, "DIFFERENT", 6)  # no label at all is one, too
    sets = [[name for k, name in enumerate("abcde") if n >> k & 1] for n in range(32)]
    lines = "".join(f"text {n}\t{','.join(names)}\n" for n, names in enumerate(sets * 2))
    train = opened(tmp_path, "several", lines)["train"]
    assert len(train.shards[0].splits["train"]["labels"]) <= 6
    wanted = [row["label"] for row in train.source]
    assert labels_of(train) == wanted and set(wanted) <= {tuple("abcde".index(n) for n in names) for names in sets}
    with pytest.raises(ValueError, match=r"train\.tsv: row \d+: more than 6 different labels, too many for classes"):
        opened(tmp_path, "several", lines + "one more\tf\n")


def test_the_same_file_has_other_shards_where_its_labels_are_of_another_kind(tmp_path: Path):
    lines = "".join(f"text {n}\t{n % 3}\n" for n in range(30))
    kinds = [opened(tmp_path, kind, lines)["train"] for kind in (None, "several", "number")]
    assert [type(labels_of(train)[0]) for train in kinds] == [int, tuple, float]


def test_a_test_split_that_withholds_labels_has_other_shards_for_a_task_without_labels(tmp_path: Path):
    for name, rows in (("train", "text,label\na,x\nb,y\nc,x\nd,y\n"), ("test", "text\none\ntwo\n")):
        (tmp_path / f"{name}.csv").write_text(rows)
    source = {"files": {"train": "train.csv", "test": "test.csv"}}
    task = read_task({"objective": "classification", "source": source, "labels": "several"}, "task")
    tokenizer = Tokenizer.train(tokenizers.parse("characters"), ["one two"])
    plain, labeled = (
        open_store(load_rows(task, read, tmp_path, ["test"]), forms["text"].stored, tokenizer)["test"]
        for read in (["text"], inputs())
    )
    assert plain.lengths.labels is None and labels_of(labeled) == [(-1,), (-1,)]


TOXIC = {"text": "text", "label": ["toxic", "threat", "insult"]}


def by_column(folder: Path, train: str, test: str, labels: Any = "several", columns: Any = TOXIC) -> dict[str, Split]:
    """The splits of tables with a column for each class."""
    source = {"files": {"train": "train.csv", "test": "test.csv"}}
    for name, rows in (("train", train), ("test", test)):
        (folder / f"{name}.csv").write_text(rows)
    given = {"objective": "classification", "source": source, "labels": labels, "columns": columns}
    rows = load_rows(read_task(given, "task"), inputs(), folder, ["train", "test"])
    return open_store(rows, forms["text"].stored, Tokenizer.train(tokenizers.parse("characters"), ["one two"]))


CLASSES = "id,text,toxic,threat,insult\n"
JIGSAW = CLASSES + "".join(f"{n},text {n},{n % 2},0,{int(n % 4 > 1)}\n" for n in range(40))


def test_each_class_may_have_a_column_of_zeros_and_ones(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    splits = by_column(tmp_path, JIGSAW, CLASSES + "1,x,0,1,0\n2,y,-1,-1,-1\n3,z,0,0,0\n")
    assert splits["train"].labels == ("toxic", "threat", "insult")  # in the order of the columns
    assert set(labels_of(splits["train"])) == {(), (0,), (2,), (0, 2)}
    assert labels_of(splits["test"]) == [(1,), (-1,), ()]  # a test split keeps some to itself
    assert "no row has the label threat, so a model cannot learn it here" in caplog.text
    again = by_column(tmp_path, JIGSAW, "id,text\n1,x\n", {"several": ["insult", "threat", "toxic"]})
    assert set(labels_of(again["train"])) == {(), (2,), (0,), (0, 2)} and labels_of(again["test"]) == [(-1,)]


@pytest.mark.parametrize(
    ("labels", "columns", "row", "words"),
    [
        ("several", TOXIC, "9,x,1,yes,0", r"train\.csv: line 42: 'threat' must be 1 .* or 0, got 'yes'"),
        ("several", TOXIC, "9,x,1,-1,0", r"train\.csv: line 42: 'threat' must be 1 .* or 0, got '-1'"),
        ("several", TOXIC, "9,x,-1,-1,-1", r"train\.csv: line 42: the row has no label: .* all columns of classes"),
        ({"several": ["a", "b"]}, TOXIC, "", "names a, b, but the columns of the classes are toxic, threat, insult"),
        (None, TOXIC, "", r"columns.label: a list must name two or more columns .* \(labels: several\) of classes"),
        ("several", {**TOXIC, "label": ["toxic"]}, "", r"columns.label: a list must name two or more columns"),
        ("several", {**TOXIC, "label": ["toxic", "treat"]}, "", r"unknown column 'treat' .did you mean 'threat'"),
    ],
)
def test_columns_of_classes_that_cannot_be_are_refused(tmp_path: Path, labels: Any, columns: Any, row: str, words: str):
    with pytest.raises(ValueError, match=words):
        by_column(tmp_path, f"{JIGSAW}{row}\n", JIGSAW, labels, columns)


def test_columns_of_classes_may_hold_floats_as_parquet_has_them():
    assert [present_classes(["a", "b"], values) for values in ([0.0, 1.0], [0.0, 0.0], [-1.0, -1.0])] == [
        ["b"],
        [],
        None,
    ]


def test_numbers_are_numbers(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    splits = opened(tmp_path, "number", "".join(f"t {i}\t{i / 4}\n" for i in range(40)), HEADER + "x\t-1\ny\t\n")
    assert set(labels_of(splits["train"])) <= {i / 4 for i in range(40)}
    known, unknown = labels_of(splits["test"])
    assert known == -1.0 and math.isnan(unknown)
    assert splits["test"].shards[0].splits["test"]["labels"] == [-1.0, -1.0]
    assert "test: every row has the number -1; if it hides the labels, replace it by null or an" in caplog.text


def test_each_row_keeps_its_own_number_and_the_index_has_two(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    splits = opened(tmp_path, "number", "".join(f"t {i}\t{i / 7}\n" for i in range(600, 0, -1)), HEADER + "x\t1\n")
    kept = labels_of(splits["train"])
    assert sorted(kept) == sorted(set(kept)) and set(kept) <= {i / 7 for i in range(601)}
    assert splits["train"].shards[0].splits["train"]["labels"] == [min(kept), max(kept)]
    assert splits["test"].rows[0]["label"] == 1.0
    assert not any("labels" in path.read_text() for path in (tmp_path / "cache" / "known").glob("*.json"))
    assert "every row has the number" not in caplog.text


def test_numbers_that_are_all_the_same_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    opened(tmp_path, "number", "".join(f"t {i}\t0.5\n" for i in range(9)))
    assert "train: every row has the number 0.5, so there is nothing to learn" in caplog.text
    assert "test: every row" not in caplog.text


def test_labels_that_are_no_classes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(numbering, "DIFFERENT", 5)
    with pytest.raises(ValueError, match=r"train\.tsv: row 6: more than 5 different labels, too many for classes"):
        opened(tmp_path, None, "".join(f"t {i}\t{i}\n" for i in range(9)))


def test_a_test_split_may_lack_its_numbers(tmp_path: Path):
    splits = opened(tmp_path, "number", "a\t1\nb\t2\nc\t3\nd\t4\n", "text\nx\n")
    assert math.isnan(labels_of(splits["test"])[0])


@pytest.mark.parametrize(
    ("labels", "train", "words"),
    [
        ("number", "a\t1\nb\tmany\n", r"train\.tsv: line 3: the label must be a finite number, .*, got 'many'"),
        ("number", "a\t1\nb\tnan\n", r"train\.tsv: line 3: the label must be a finite number, .*, got 'nan'"),
        ("number", "a\t1\nb\tinf\n", r"train\.tsv: line 3: the label must be a finite number, .*, got 'inf'"),
        (
            "number",
            "a\t1\nb\t1e39\n",
            r"line 3: the label must be a finite number, at most 3\.4e\+38 in .*, got '1e39'",
        ),
        ("number", f"a\t1\nb\t{'9' * 400}\n", r"line 3: the label must be a finite number, .*, got '9999"),
        ("number", "a\t1\nb\t1_000\n", r"line 3: the label must be a finite number, .*, got '1_000'"),
        ("number", "a\t1\nb\t\N{ARABIC-INDIC DIGIT THREE}\n", r"line 3: the label must be a finite number, .*, got"),
        ("number", "a\t\nb\t1\n", r"train\.tsv: line 2: the label must be a finite number, .*, got ''"),
        (
            {"several": ["one", "two"]},
            "a\tone\nb\tone,tow\n",
            r"train\.tsv: line 3: unknown label 'tow' \(did you",
        ),
        ("several", "a\tone\nb\t\n", r"the labels name too few classes \(1\); at least two are needed"),
    ],
)
def test_bad_labels_are_refused_with_their_row(tmp_path: Path, labels: Any, train: str, words: str):
    with pytest.raises(ValueError, match=words):
        opened(tmp_path, labels, train)


@pytest.mark.parametrize("label", ["1" + 400 * "0", "-4e38", "true"])
def test_numbers_beyond_float32_are_refused_in_json_too(tmp_path: Path, label: str):
    (tmp_path / "train.jsonl").write_text(f'{{"text": "a", "label": 3.4e38}}\n{{"text": "b", "label": {label}}}\n')
    source = {"files": {"train": "train.jsonl"}}
    task = read_task({"objective": "classification", "source": source, "labels": "number"}, "task")
    with pytest.raises(ValueError, match=r"train\.jsonl: line 2: the label must be a finite number, at most 3\.4e\+38"):
        list(load_rows(task, inputs(), tmp_path)["train"])


@pytest.mark.parametrize("label", [Decimal("1.50"), datetime(2026, 11, 25)], ids=str)
def test_labels_of_a_type_that_only_parquet_has_are_refused_with_their_row(tmp_path: Path, label: Any):
    rows = pyarrow.table({"text": ["a", "b"], "label": [label, label]})
    pyarrow.parquet.write_table(rows, tmp_path / "train.parquet")
    source = {"files": {"train": "train.parquet"}}
    task = read_task({"objective": "classification", "source": source}, "task")
    with pytest.raises(ValueError, match=r"train\.parquet: row 1: a label must be a text or a whole number, got "):
        list(load_rows(task, inputs(), tmp_path)["train"])


def test_lists_of_lists_are_no_classes(tmp_path: Path):
    (tmp_path / "train.jsonl").write_text('{"text": "a", "label": [["x"]]}\n{"text": "b", "label": [["y"]]}\n')
    source = {"files": {"train": "train.jsonl"}}
    task = read_task({"objective": "classification", "source": source, "labels": "several"}, "task")
    with pytest.raises(ValueError, match=r"train\.jsonl: line 1: the label must be a list of names, or a text"):
        list(load_rows(task, inputs(), tmp_path)["train"])


@pytest.mark.parametrize("label", [Decimal("1.50"), b"a", [datetime(2026, 11, 25)]], ids=str)
@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_store_refuses_such_labels_too(tmp_path: Path, label: Any, split: str):
    (tmp_path / "train.tsv").write_text(HEADER + TRAIN)
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a", "b"], "label": [label] * 2}), tmp_path / "other.parquet")
    source = {"files": {"train": "train.tsv", split: "other.parquet"}}
    task = read_task({"objective": "classification", "source": source, "labels": "several"}, "task")
    rows = load_rows(task, inputs(), tmp_path, ["train", split])
    tokenizer = Tokenizer.train(tokenizers.parse("characters"), ["one two"])
    with pytest.raises(ValueError, match=r"other\.parquet: row 1: a label must be a text, a whole number or a list"):
        open_store(rows, forms["text"].stored, tokenizer)
