"""Classes by name or number, and what is neither."""

import logging
import re

import pytest

from zoo.data.columns.labels import LabelReader, Labels, MultiLabels, Occurrence

NAMES = ["negative", "positive"]
HOW = r"'labels: \{several: \[…\]\}'"


def found(*values: object) -> list[Occurrence]:
    return [Occurrence(value, lambda row=row: f"train: row {row}") for row, value in enumerate(values, 1)]


def test_a_label_is_a_name() -> None:
    labels = Labels(NAMES, {"positive"}, names_given=True)
    assert [labels.read(value, lambda: "row") for value in ("positive", "negative")] == [1, 0]


def test_positions_are_read_where_no_name_occurs() -> None:
    labels = Labels(NAMES, {"0", "1"}, names_given=True)
    assert [labels.read(value, lambda: "row") for value in (1, "1", 0, "0")] == [1, 1, 0, 0]


@pytest.mark.parametrize("value", [0, "1", "positiv", 2, -1, True, 1.0, None, ""])
def test_a_position_among_names_is_refused(value: object) -> None:
    with pytest.raises(
        ValueError, match=r"a.tsv: row 7: unknown label .*; allowed: negative, positive($|; only a test split)"
    ):
        Labels(NAMES, {"positive", str(value)}, names_given=True).read(value, lambda: "a.tsv: row 7")


def test_a_withheld_label_outside_a_test_split_is_not_taken_for_a_slip_of_the_pen() -> None:
    with pytest.raises(ValueError, match=r"unknown label '-1'; allowed: 0, 1; only a test split may withhold"):
        Labels(["0", "1"], ["-1", "0"], names_given=True).read("-1", lambda: "a.tsv: row 7")


@pytest.mark.parametrize("value", ["positiv", 2, -1, True, 1.0, None, ""])
def test_anything_else_is_refused_with_what_is_allowed(value: object) -> None:
    allowed = "allowed: negative, positive, or in all rows 0 to 1"
    with pytest.raises(ValueError, match=rf"a.tsv: row 7: unknown label .*; {allowed}"):
        Labels(NAMES, {str(value)}, names_given=True).read(value, lambda: "a.tsv: row 7")


def test_names_that_are_numbers_are_never_positions() -> None:
    assert Labels(["1", "2", "3"], {"1"}, names_given=True).read("1", lambda: "row") == 0
    with pytest.raises(ValueError, match=r"row: unknown label 1; allowed: 0, 2"):
        Labels(["0", "2"], {"1"}, names_given=True).read(1, lambda: "row")


@pytest.mark.parametrize("value", ["\u1112\u1161\u11ab", "한 ", "\u200b한"])
def test_a_label_that_only_looks_like_a_name_is_refused_as_that(value: str) -> None:
    said = re.escape(f"unknown label {value!r} (it and '한' differ only in white space, in invisible characters or")
    for reader, written in ((Labels, value), (MultiLabels, [value])):
        with pytest.raises(ValueError, match=said):
            reader(["한", "z"], {value}, names_given=True).read(written, lambda: "row 1")


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(ValueError, match=r"unknown label 'positiv' \(did you mean 'positive'\?\)"):
        Labels(NAMES, {"positiv"}, names_given=True).read("positiv", lambda: "row 1")


def test_a_class_that_train_never_shows_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    Labels([*NAMES, "mixed"], {"positive"}, names_given=True).report([1, 0, 1], "a.tsv", train=True)
    assert "a.tsv: no row has the label mixed, so a model cannot learn it here" in caplog.text


def test_labels_read_as_positions_are_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        Labels([*NAMES, "mixed"], {"0", "1"}, names_given=True).report([1, 0, -1], "a.tsv", train=False)
    assert "zoo reads 0 as negative, 1 as positive, 2 as mixed (2 of 3 occur)" in caplog.text


def test_hundreds_of_classes_that_are_numbers_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert len(Labels.names_in(found(*range(101)), "train")) == 101
    assert "train: the labels are 101 different numbers; is each of them a class?" in caplog.text


def test_names_are_the_sorted_values_of_train() -> None:
    assert Labels.names_in(found("b", "a", "b"), "train") == ("a", "b")
    assert Labels.names_in(found("10", "9", 2), "train") == ("2", "9", "10")
    assert Labels.names_in(found("-1", "-10", 3), "train") == ("-10", "-1", "3")


def test_the_names_of_several_classes_have_the_order_of_those_of_one() -> None:
    assert MultiLabels.names_in(found([10], ["9", 2], []), "train") == ("2", "9", "10")


LISTS = ["['a', 'b']", '["a", "b"]', "[1]", "[]", "('a', 'b')", "()", "{'a', 'b'}", "set()", "'a','b'", '"a"']


@pytest.mark.parametrize("label", LISTS)
def test_a_list_written_as_text_is_not_read_as_names(label: str) -> None:
    values = [entry for written in ("a", label) for entry in MultiLabels.entries(written)]
    said = r"train: row 2: the label begins with .*, as if a list were written as text; .* 'labels: \{several: \[…\]\}'"
    with pytest.raises(ValueError, match=said):
        MultiLabels.names_in(found(*values), "train")


def test_names_may_have_brackets_and_quotes_inside() -> None:
    names = ("(none)", "a [x]", "b 'y'", "rock'n'roll")
    assert MultiLabels.names_in(found(list(names)), "train") == names


@pytest.mark.parametrize("label", [[0, 1, 1], "0,1,1", "0 1 1", "1;0", "0|1|1", "0.0,1.0", "True,False"])
def test_a_0_or_1_for_each_class_is_not_read_as_names(label: object) -> None:
    said = r"train: row \d: the labels are only .*, as in a vector .* 'labels: \{several: \[…\]\}'"
    with pytest.raises(ValueError, match=said):
        MultiLabels.names_in(found(*MultiLabels.entries(label)), "train")
    assert MultiLabels.names_in(found([0], [1], [2]), "train") == ("0", "1", "2")
    assert MultiLabels(["0", "1"], [], names_given=True).read([1, 0], lambda: "row") == (0, 1)


@pytest.mark.parametrize("label", ["a;b", "b | c", "x;b;", ";a", "x|y|a"])
def test_names_that_are_joined_by_other_marks_than_commas_are_warned_of(
    label: str, caplog: pytest.LogCaptureFixture
) -> None:
    values = [entry for written in ("a", label, "b", "c, d") for entry in MultiLabels.entries(written)]
    assert {"a", label, "b"} <= {*MultiLabels.names_in(found(*values), "train")}
    assert f"train: row 2: the label {label!r} is one class; write commas between the names of several" in caplog.text


def test_a_name_of_one_class_may_hold_any_mark(caplog: pytest.LogCaptureFixture) -> None:
    names = ["a;b"], ["c|d", "e f", "e"], ["|"], [";)"], [";("]
    assert {*MultiLabels.names_in(found(*names), "train")} == {"a;b", "c|d", "e", "e f", "|", ";)", ";("}
    assert not caplog.text


def test_a_truth_value_is_not_said_to_mean_the_class_of_its_name() -> None:
    labels = Labels(["False", "True"], [True], names_given=True)
    said = r"row: unknown label True \(a label must be a text or a whole number\); allowed: False, True$"
    with pytest.raises(ValueError, match=said):
        labels.read(True, lambda: "row")


def test_names_of_one_value_have_one_order() -> None:
    for names in (["1", "01", "-0", "0"], ["0", "-0", "01", "1"]):
        assert Labels.names_in([Occurrence(name, lambda: "") for name in names], "rows") == ("-0", "0", "01", "1")


def test_a_class_of_the_name_of_nothing_hides_no_other_way() -> None:
    assert Labels.hidden([None, "None", -1, "-1", ""], ("None", "-1")) == [True, False, False, False, True]


@pytest.mark.parametrize("label", ["--1", "9" * 5_000])
def test_what_no_number_can_be_is_a_name(label: str) -> None:
    assert set(Labels.names_in([Occurrence(label, lambda: ""), Occurrence("1", lambda: "")], "rows")) == {label, "1"}


def test_a_single_class_is_refused() -> None:
    with pytest.raises(ValueError, match="train: every row has the label 'a'; at least two classes are needed"):
        Labels.names_in(found("a", "a"), "train")


@pytest.mark.parametrize("reader", [Labels, MultiLabels])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("pos", "pos "),
        ("\u0633", "\u200f\u0633"),
        ("pos", "pos\u200b"),
        ("a b", "a\u00a0b"),
        ("\ud55c", "\u1112\u1161\u11ab"),
    ],
)
def test_classes_whose_names_look_alike_are_refused_by_row(reader: type[LabelReader], one: str, other: str) -> None:
    values = [[name] if reader.multilabel else name for name in ("neg", one, one, other)]
    how = r"'labels: \{several: \[…\]\}'" if reader.multilabel else "list the 'labels'"
    differ = "differ only in white space, in invisible characters or in their Unicode form; write them alike, or "
    with pytest.raises(ValueError, match=f"train: row 4: the labels .* {differ}.*{how}"):
        reader.names_in(found(*values), "train")


@pytest.mark.parametrize("reader", [Labels, MultiLabels])
def test_classes_whose_names_differ_only_in_case_or_as_numbers_are_warned_of(
    reader: type[LabelReader], caplog: pytest.LogCaptureFixture
) -> None:
    for one, other in (("Pos", "pos"), ("2", "2.0"), ("\u00e4", "a"), ("3", "3x")):
        values = [[other], [one]] if reader.multilabel else [other, one]
        assert set(reader.names_in(found(*values), "train")) == {one, other}
    said = "train: labels that differ in case or as 1 and 1.0 are different classes: "
    assert [record.getMessage() for record in caplog.records] == [f"{said}'pos' and 'Pos'", f"{said}'2.0' and '2'"]


@pytest.mark.parametrize("value", [None, "", 0.5, True])
def test_a_label_that_is_no_name_is_refused_by_row(value: object) -> None:
    with pytest.raises(ValueError, match="train: row 2: a label must be a text or a whole number"):
        Labels.names_in(found("a", value), "train")
