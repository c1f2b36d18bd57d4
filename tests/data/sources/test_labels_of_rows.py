"""Labels of rows: read as numbers, by the names of train or of the task."""

import logging
from typing import Any

import pytest
from written_rows import ALL_STAY, WORDS, Given, column, reader

from zoo.data.columns.columns import Columns
from zoo.data.sources.part import Table
from zoo.data.sources.splits import numbering
from zoo.data.sources.splits.reader import SplitReader
from zoo.examples.form import inputs


def test_labels_become_numbers_by_name_or_by_position() -> None:
    rows = {"text": ["a", "b", "c"], "label": ["no", "yes", "yes"]}
    reading = reader(Given(train=rows, validation=rows), names=["no", "yes"])
    assert column(reading, "validation", "label") == [0, 1, 1] and reading.labels == ("no", "yes")


def test_one_split_may_hold_names_and_another_positions(caplog: pytest.LogCaptureFixture) -> None:
    train, validation = {"text": ["a", "b"], "label": ["no", "yes"]}, {"text": ["c"], "label": [1]}
    reading = reader(Given(train=train, validation=validation), names=["no", "yes"])
    with caplog.at_level(logging.INFO):
        assert column(reading, "validation", "label") == [1]
    assert "validation.tsv: its labels are numbers: zoo reads 0 as no, 1 as yes" in caplog.text


@pytest.mark.parametrize("names", [None, ["0", "2"]])
def test_a_class_that_train_does_not_have_is_no_position_of_another(names: list[str] | None) -> None:
    train, validation = {"text": ["a", "b"], "label": [0, 2]}, {"text": ["c"], "label": [1]}
    with pytest.raises(ValueError, match="validation.tsv: row 1: unknown label 1; allowed: 0, 2$"):
        list(reader(Given(train=train, validation=validation), names=names).read("validation"))


def test_the_names_of_classes_that_no_objective_reads_need_no_labels() -> None:
    origin = Given(train={"text": ["a", "b"], "label": ["x", "y"]}, test={"text": ["c"]})
    reading = SplitReader(origin, Columns(["text"]), 0.3, ["x", "y"], "one", ALL_STAY)
    found = [row for split in ("train", "validation", "test") for row in reading.read(split)]
    assert sorted(row.pop("text") for row in found) == ["a", "b", "c"] and not any(found)


def test_the_names_that_train_shows_have_no_positions() -> None:
    train, validation = {"text": ["a", "b"], "label": ["no", "yes"]}, {"text": ["c"], "label": [1]}
    with pytest.raises(ValueError, match="validation.tsv: row 1: unknown label 1; allowed: no, yes$"):
        list(reader(Given(train=train, validation=validation)).read("validation"))


def test_unnamed_labels_are_the_values_of_train() -> None:
    rows = {"text": ["a", "b"], "label": ["z", "y"]}
    reading = reader(Given(train=rows, validation={"text": ["c"], "label": ["z"]}))
    assert reading.labels == ("y", "z") and column(reading, "validation", "label") == [1]


def test_an_unknown_label_is_named_with_its_file_and_row() -> None:
    rows = {"text": ["a", "b"], "label": ["no", "yes"]}
    reading = reader(Given(train=rows, validation={"text": ["a", "b"], "label": ["no", "maybe"]}))
    with pytest.raises(ValueError, match="validation.tsv: row 2: unknown label 'maybe'; allowed: no, yes$"):
        list(reading.read("validation"))
    several = {"text": list("abc"), "label": ["maybe", "maybe", "no"]}
    with pytest.raises(ValueError, match="validation.tsv: row 1: unknown label 'maybe'"):  # the first of them
        list(reader(Given(train=rows, validation=several)).read("validation"))
    reading = reader(Given(train=rows, validation={"text": ["a"], "label": [-1]}))  # which only a test split may have
    with pytest.raises(ValueError, match="validation.tsv: row 1: unknown label -1; allowed: no, yes; only a test"):
        list(reading.read("validation"))


@pytest.mark.parametrize("missing", [None, True])
def test_a_value_that_is_written_as_the_name_of_a_class_is_not_that_class(missing: object) -> None:
    rows = {"text": ["a", "b", "c"], "label": ["None", "True", missing]}
    with pytest.raises(ValueError, match=f"train.tsv: row 3: a label must be a text or a whole number, got {missing}"):
        list(reader(Given(train=rows, validation=rows)).read("train"))


@pytest.mark.parametrize("kept_back", [{"text": ["a"]}, {"text": ["a"], "label": [-1]}, {"text": ["a"], "label": [""]}])
def test_a_test_split_without_labels_has_minus_1(kept_back: dict[str, list[Any]]) -> None:
    rows = {"text": ["a", "b"], "label": ["no", "yes"]}
    assert column(reader(Given(train=rows, validation=rows, test=kept_back)), "test", "label") == [-1]


def test_named_labels_need_a_column() -> None:
    reading = reader(Given(train={**WORDS, "Label": ["no"]}, validation=WORDS), names=["no", "yes"])
    with pytest.raises(ValueError, match="train.tsv: no column is read as 'label'; found: text, Label; name it"):
        list(reading.read("train"))


def test_a_table_with_the_column_and_no_rows_is_said_to_have_none() -> None:
    reading = reader(Given(train={"text": [], "label": []}, validation=WORDS), names=["no", "yes"])
    with pytest.raises(ValueError, match=r"train.tsv: it has no rows$"):
        list(reading.read("train"))


def test_labels_without_train_must_be_named() -> None:
    with pytest.raises(ValueError, match="list the 'labels' in the task: there is no train split"):
        list(reader(Given(validation={"text": ["a"], "label": ["no"]})).read("validation"))


def test_a_label_that_stands_for_several_classes_is_read_as_such_though_it_was_read_as_one() -> None:
    table = Given(train={"text": ["a", "b"], "label": ["x,y", "y"]})
    kinds = [SplitReader(table, Columns(inputs()), 0.3, None, kind, ALL_STAY) for kind in ("one", "several")]
    assert [reading.labels for reading in kinds] == [("x,y", "y"), ("x", "y")]
    found = [{label for split in ("train", "validation") for label in column(one, split, "label")} for one in kinds]
    assert found == [{0, 1}, {(0, 1), (1,)}]


def test_too_many_labels_of_several_files_are_no_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbering, "DIFFERENT", 3)

    class Parts(Given):
        def parts(self, split: str) -> list[Table]:
            tables = ({"text": ["t", "u"], "label": labels} for labels in (["a", "b"], ["c", "d"]))
            return [Table(split, str(table), list(table), lambda table=table: table) for table in tables]

    with pytest.raises(ValueError, match="train.tsv: more than 3 different labels, too many for classes"):
        reader(Parts(train={}, validation={})).labels  # noqa: B018
