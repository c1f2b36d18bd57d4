"""What one value of a column of labels says."""

import pytest

from zoo.data.columns.values import are_names, number_of, position_of


@pytest.mark.parametrize(
    ("value", "position"),
    [("A", 0), ("Z", 25), ("AB", None), ("a", None), (3, 3), ("12", 12), (-1, None), ("-1", None), (True, None)],
)
def test_a_choice_is_named_by_its_number_or_by_one_capital_letter(value: object, position: int | None) -> None:
    assert position_of(value) == position


def test_a_truth_value_is_no_name() -> None:
    assert are_names(["a", 1]) and not are_names(["a", True])


@pytest.mark.parametrize(("value", "number"), [("2.5", 2.5), (b"2.5", None), (b"1_000", None), ("1_000", None)])
def test_a_number_is_no_bytes_and_has_no_underscores(value: object, number: float | None) -> None:
    assert number_of(value) == number
