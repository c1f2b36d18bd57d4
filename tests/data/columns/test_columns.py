"""Which column of the data each input is read from, and what several columns become."""

from typing import Any

import pytest

from zoo.data.columns.columns import Column, Columns, name_classes, read_input, stored_columns
from zoo.data.ids import CHOICES, LABEL, PICTURE, TAGS, WORDS


def test_columns_come_in_the_order_of_the_inputs_whatever_a_task_says_first() -> None:
    chosen = Columns(["source", "target"], {"target": "de", "source": "en"}).choose(["de", "en"], "a.tsv")
    assert list(chosen.items()) == [("source", "en"), ("target", "de")]


@pytest.mark.parametrize(
    ("present", "read", "unread"),
    [
        (["messages", "prompt", "text", LABEL], [LABEL, "messages"], []),
        (["messages"], [LABEL, "messages"], [LABEL]),
        (["prompt", "text"], [LABEL, "prompt", "text"], [LABEL, "messages"]),
        (["text"], [LABEL, "text"], [LABEL, "messages", "prompt"]),
        (["prompt"], [LABEL, "messages", "prompt", "text"], [LABEL, "messages", "text"]),
    ],
)
def test_the_first_form_whose_columns_are_there_is_read(present: list[str], read: list[str], unread: list[str]) -> None:
    forms = [["messages"], ["prompt", "text"], ["text"]]
    columns = Columns([LABEL, "messages", "prompt", "text"], forms=forms).of_form(present)
    assert columns.inputs == read and sorted(columns.unread(present)) == unread


def test_a_column_whose_name_has_a_dot_is_no_entry_of_a_map() -> None:
    assert stored_columns(["a.b", "c.d"], ["a.b", "c"]) == {"a.b", "c"}
    assert read_input({"a.b": 1, "a": {"b": 2}, "c": {"d": 3}}, "text", "a.b") == 1


def test_images_are_read_from_a_column_itself_and_from_no_entry_of_it() -> None:
    with pytest.raises(ValueError, match=r"a.parquet: unknown column 'photo.raw'"):
        Columns([PICTURE], {PICTURE: "photo.raw"}).choose(["photo"], "a.parquet")


def test_classes_with_columns_of_their_own_have_the_order_of_the_task() -> None:
    assert name_classes(["b", "a"], {LABEL: ["a", "b"]}, "labels") == ["b", "a"]
    assert name_classes(None, {LABEL: ["a", "b"]}, "labels") == ["a", "b"]
    with pytest.raises(ValueError, match="labels: names a, c, but the columns of the classes are a, b"):
        name_classes(["a", "c"], {LABEL: ["a", "b"]}, "labels")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("text", "x\ny"), (CHOICES, ["x", " ", "y"])],  # a choice that were left out would move those behind it
)
def test_several_columns_are_the_lines_of_a_text_or_choices(name: str, expected: Any) -> None:
    column: Column = ["a", "b", "c"]
    assert read_input({"a": "x", "b": " ", "c": "y"}, name, column) == expected


def test_a_test_split_lacks_the_columns_of_all_classes_or_of_none() -> None:
    columns = Columns(["text", LABEL], {"text": "text", LABEL: ["toxic", "insult"]})
    assert columns.choose(["text"], "a.tsv", (LABEL,)) == {"text": "text"}
    with pytest.raises(ValueError, match="a.tsv: unknown column 'toxic'"):
        columns.choose(["text", "Toxic", "insult"], "a.tsv", (LABEL,))


@pytest.mark.parametrize(
    ("present", "wrong"), [(["text", TAGS], "with 'words'"), ([WORDS, TAGS, LABEL], "without 'label'")]
)
def test_tags_that_would_not_be_labels_of_words_are_refused(present: list[str], wrong: str) -> None:
    with pytest.raises(ValueError, match=f"a.tsv: 'tags' are labels of words, so they are read {wrong} only"):
        Columns(["text", WORDS, TAGS, LABEL]).choose(present, "a.tsv")
