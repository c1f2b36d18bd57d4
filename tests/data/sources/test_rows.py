"""Splits from a source: held out, labelled, checked, one text a row in train."""

import logging
from typing import Any

import pytest
from datasets import Dataset

from zoo.data.sources.columns import Columns
from zoo.data.sources.origin import Origin
from zoo.data.sources.rows import SplitReader, hold_out
from zoo.examples.form import inputs


class Given(Origin):
    """Rows written in a test; counts how often each split is read."""

    def __init__(self, **tables: dict[str, list[Any]]) -> None:
        self.tables = tables
        self.reads: list[str] = []

    def splits(self) -> tuple[str, ...]:
        return tuple(self.tables)

    def digest(self) -> str:
        return str(self.tables)

    def place(self, split: str) -> str:
        return f"{split}.tsv"

    def read(self, split: str, columns: Columns) -> Dataset:
        self.reads.append(split)
        return columns.pick(Dataset.from_dict(self.tables[split]), self.place(split))


def reader(origin: Origin, share: float = 0.3, names: list[str] | None = None) -> SplitReader:
    return SplitReader(origin, Columns(inputs()), share, names)


WORDS = {"text": [f"text {i}" for i in range(200)]}


def test_validation_is_held_out_where_the_source_has_none() -> None:
    origin = Given(train=WORDS, test=WORDS)
    reading = reader(origin)
    assert reading.splits() == ["train", "test", "validation"]
    train, validation = set(reading.read("train")["text"]), set(reading.read("validation")["text"])
    assert train | validation == set(WORDS["text"]) and not train & validation
    assert 0.2 < len(validation) / 200 < 0.4
    assert origin.reads == ["train"]


def test_a_source_with_validation_keeps_its_train_whole() -> None:
    reading = reader(Given(train=WORDS, validation={"text": ["a"]}))
    assert len(reading.read("train")) == 200 and list(reading.read("validation")["text"]) == ["a"]


def test_which_split_a_document_falls_in_is_decided_by_its_content_alone() -> None:
    backwards = Dataset.from_dict({"text": WORDS["text"][::-1] + ["another"]})
    first, second = hold_out(Dataset.from_dict(WORDS), 0.3, "x"), hold_out(backwards, 0.3, "x")
    assert set(first["validation"]["text"]) == set(second["validation"]["text"]) - {"another"}


def test_equal_documents_stay_on_one_side() -> None:
    parts = hold_out(Dataset.from_dict({"text": WORDS["text"] * 2}), 0.3, "x")
    assert not set(parts["train"]["text"]) & set(parts["validation"]["text"])


def test_the_smallest_source_still_has_one_row_to_validate_on() -> None:
    parts = hold_out(Dataset.from_dict({"text": ["a", "b", "c"]}), 1e-9, "x")
    assert [len(parts[split]) for split in ("train", "validation")] == [2, 1]


def test_one_single_text_is_cut_near_its_end() -> None:
    parts = hold_out(Dataset.from_dict({"text": ["0123456789"]}), 0.3, "x")
    assert [list(parts[split]["text"]) for split in ("train", "validation")] == [["0123456"], ["789"]]


def test_too_few_rows_to_hold_some_out_are_refused() -> None:
    with pytest.raises(ValueError, match=r"x: too few different rows \(2\) to hold some out for validation"):
        hold_out(Dataset.from_dict({"source": ["a", "a"], "target": ["b", "b"]}), 0.3, "x")


def test_rows_without_any_text_are_called_empty() -> None:
    with pytest.raises(ValueError, match=r"train.tsv: each of its rows \(500\) is empty"):
        reader(Given(train={"text": [" "] * 500})).read("validation")


def test_labels_become_numbers_by_name_or_by_position() -> None:
    rows = {"text": ["a", "b", "c"], "label": ["no", "yes", "yes"]}
    reading = reader(Given(train=rows, validation=rows), names=["no", "yes"])
    assert list(reading.read("validation")["label"]) == [0, 1, 1] and reading.labels == ("no", "yes")


def test_one_split_may_hold_names_and_another_positions(caplog: pytest.LogCaptureFixture) -> None:
    train, validation = {"text": ["a", "b"], "label": ["no", "yes"]}, {"text": ["c"], "label": [1]}
    reading = reader(Given(train=train, validation=validation), names=["no", "yes"])
    with caplog.at_level(logging.INFO):
        assert list(reading.read("validation")["label"]) == [1]
    assert "validation.tsv: none of the labels no, yes occurs; 0 to 1 are read as their positions" in caplog.text


@pytest.mark.parametrize("names", [None, ["0", "2"]])
def test_a_class_that_train_does_not_have_is_no_position_of_another(names: list[str] | None) -> None:
    train, validation = {"text": ["a", "b"], "label": [0, 2]}, {"text": ["c"], "label": [1]}
    with pytest.raises(ValueError, match="validation.tsv: row 1: unknown label 1; allowed: 0, 2$"):
        reader(Given(train=train, validation=validation), names=names).read("validation")


def test_the_names_that_train_shows_have_no_positions() -> None:
    train, validation = {"text": ["a", "b"], "label": ["no", "yes"]}, {"text": ["c"], "label": [1]}
    with pytest.raises(ValueError, match="validation.tsv: row 1: unknown label 1; allowed: no, yes$"):
        reader(Given(train=train, validation=validation)).read("validation")


def test_unnamed_labels_are_the_values_of_train() -> None:
    rows = {"text": ["a", "b"], "label": ["z", "y"]}
    reading = reader(Given(train=rows, validation={"text": ["c"], "label": ["z"]}))
    assert reading.labels == ("y", "z") and list(reading.read("validation")["label"]) == [1]


def test_an_unknown_label_is_named_with_its_file_and_row() -> None:
    rows = {"text": ["a", "b"], "label": ["no", "yes"]}
    reading = reader(Given(train=rows, validation={"text": ["a", "b"], "label": ["no", "maybe"]}))
    with pytest.raises(ValueError, match="validation.tsv: row 2: unknown label 'maybe'; allowed: no, yes$"):
        reading.read("validation")


@pytest.mark.parametrize("kept_back", [{"text": ["a"]}, {"text": ["a"], "label": [-1]}, {"text": ["a"], "label": [""]}])
def test_a_test_split_without_labels_has_minus_1(kept_back: dict[str, list[Any]]) -> None:
    rows = {"text": ["a", "b"], "label": ["no", "yes"]}
    assert list(reader(Given(train=rows, validation=rows, test=kept_back)).read("test")["label"]) == [-1]


def test_named_labels_need_a_column() -> None:
    reading = reader(Given(train=WORDS, validation=WORDS), names=["no", "yes"])
    with pytest.raises(ValueError, match="train.tsv: no column is read as 'label'; found: text"):
        reading.read("train")


def test_labels_without_train_must_be_named() -> None:
    with pytest.raises(ValueError, match="name the 'labels' in the task: there is no train split"):
        reader(Given(validation={"text": ["a"], "label": ["no"]})).read("validation")


@pytest.mark.parametrize("value", [None, 3, [], ["a", None]])
def test_a_text_that_is_no_text_is_refused_by_row(value: object) -> None:
    first = ["fine"] if isinstance(value, list) else ("fine" if value is None else 1)
    with pytest.raises(ValueError, match=r"train.tsv: row \d: 'text' must be a text, got"):
        reader(Given(train={"text": [first, value]}, validation=WORDS)).read("train")


def test_train_has_one_row_for_each_text_of_a_list_and_evaluation_keeps_the_list() -> None:
    rows = {"source": ["x", "y"], "target": [["a", "b"], ["c"]]}
    reading = reader(Given(train=rows, validation=rows))
    assert list(reading.read("train")) == [
        {"source": "x", "target": "a"},
        {"source": "x", "target": "b"},
        {"source": "y", "target": "c"},
    ]
    assert list(reading.read("validation")["target"]) == [["a", "b"], ["c"]]


def test_only_one_column_may_hold_lists() -> None:
    rows = {"source": [["x"]], "target": [["a", "b"]]}
    with pytest.raises(ValueError, match="train.tsv: only one column may hold lists of texts, got source and target"):
        reader(Given(train=rows, validation=rows)).read("train")
