"""Classes by name or number, and what is neither."""

import pytest

from zoo.data.sources.labels import Labels, distinct


def test_a_label_is_a_name_or_its_index() -> None:
    labels = Labels(["negative", "positive"])
    assert [labels.read(value, "row") for value in ("positive", 1, "1", "negative", 0, "0")] == [1, 1, 1, 0, 0, 0]


def test_a_name_goes_before_an_index() -> None:
    assert Labels(["1", "2", "3"]).read("1", "row") == 0


@pytest.mark.parametrize("value", ["positiv", 2, -1, True, 1.0, None, ""])
def test_anything_else_is_refused_with_what_is_allowed(value: object) -> None:
    with pytest.raises(ValueError, match=r"a.tsv: row 7: unknown label .*; allowed: negative, positive, or 0 to 1"):
        Labels(["negative", "positive"]).read(value, "a.tsv: row 7")


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(ValueError, match=r"unknown label 'positiv' \(did you mean 'positive'\?\)"):
        Labels(["negative", "positive"]).read("positiv", "row 1")


def test_names_are_the_sorted_values_of_train() -> None:
    assert distinct(["b", "a", "b"], "train") == ("a", "b")
    assert distinct(["10", "9", 2], "train") == ("2", "9", "10")


def test_a_single_class_is_refused() -> None:
    with pytest.raises(ValueError, match="train: every row has the label 'a'; at least two classes are needed"):
        distinct(["a", "a"], "train")


@pytest.mark.parametrize("value", [None, "", 0.5, True])
def test_a_label_that_is_no_name_is_refused_by_row(value: object) -> None:
    with pytest.raises(ValueError, match="train: row 2: a label must be a text or a whole number"):
        distinct(["a", value], "train")
