"""Splits from a source: held out, checked, one text a row in train."""

from typing import Any

import pytest
from written_rows import ALL_STAY, WORDS, Given, column, reader

from zoo.data.columns.columns import Columns
from zoo.data.sources.filtering import Filtering, RowFilter
from zoo.data.sources.mixed import MixedRows
from zoo.data.sources.part import Table
from zoo.data.sources.repeated.duplicates import Duplicates
from zoo.data.sources.rows import SplitRows
from zoo.data.sources.splits.holdout import cut_text, hash_fraction
from zoo.data.sources.splits.reader import SplitReader
from zoo.examples.form import inputs

FORMS = [["image"], ["text", "pair"], ["text"]]


def test_validation_is_held_out_where_the_source_has_none() -> None:
    origin = Given(train=WORDS, test=WORDS)
    reading = reader(origin)
    assert reading.splits() == ["train", "test", "validation"]
    train, validation = set(column(reading, "train", "text")), set(column(reading, "validation", "text"))
    assert train | validation == set(WORDS["text"]) and not train & validation
    assert 0.2 < len(validation) / 200 < 0.4


def test_a_source_with_validation_keeps_its_train_whole() -> None:
    reading = reader(Given(train=WORDS, validation={"text": ["a"]}))
    assert len(list(reading.read("train"))) == 200 and column(reading, "validation", "text") == ["a"]


def held_out(texts: list[str], share: float = 0.3) -> dict[str, list[str]]:
    reading = reader(Given(train={"text": texts}), share)
    return {split: column(reading, split, "text") for split in ("train", "validation")}


def test_which_split_a_document_falls_in_is_decided_by_its_content_alone() -> None:
    first, second = held_out(WORDS["text"]), held_out(WORDS["text"][::-1] + ["another"])
    assert set(first["validation"]) == set(second["validation"]) - {"another"}


def test_equal_documents_stay_on_one_side() -> None:
    parts = held_out(WORDS["text"] * 2)
    assert not set(parts["train"]) & set(parts["validation"])


def test_the_smallest_source_still_has_one_row_to_validate_on() -> None:
    assert [len(texts) for texts in held_out(["a", "b", "c"], 1e-9).values()] == [2, 1]


def test_a_blank_line_is_no_row_to_validate_on() -> None:
    lines = [f"This is line {number} of my text." for number in range(4)]
    for blank in ("", "\u3000"):
        assert hash_fraction(str((blank,))) < min(hash_fraction(str((line,))) for line in lines)
        found = held_out([*lines, blank, blank], 1e-9)
        assert [sum(bool(text.strip()) for text in texts) for texts in found.values()] == [3, 1]


def test_a_pair_with_a_blank_side_is_no_row_to_validate_on() -> None:
    pairs = [*((f"source {n}", f"target {n}") for n in range(4)), ("source 9", "")]
    assert min(pairs, key=lambda pair: hash_fraction(str(pair))) == pairs[-1]
    sources, targets = map(list, zip(*pairs, strict=True))
    reading = reader(Given(train={"source": sources, "target": targets}), 1e-9)
    assert [sum(map(bool, column(reading, split, "target"))) for split in ("train", "validation")] == [3, 1]


def test_a_column_that_is_blank_in_all_rows_does_not_stand_in_the_way() -> None:
    reading = reader(Given(train={"text": ["a", "b", "c"], "pair": [""] * 3}), 1e-9)
    assert [len(column(reading, split, "text")) for split in ("train", "validation")] == [2, 1]


@pytest.mark.parametrize("more", [{"pair": ["c"]}, {"pair": [None], "image": ["c.png"]}])
def test_the_columns_of_train_decide_what_is_read_of_all_splits(more: dict[str, Any]) -> None:
    train, validation = {"text": ["a", "b"], "label": ["x", "y"]}, {"text": ["c"], "label": ["x"], **more}

    def reading(**how: Any) -> SplitReader:
        origin = Given(train=train, validation=validation, test={"text": ["d"], **more})
        return SplitReader(origin, Columns(inputs(), **how), 0.3, None, "one", ALL_STAY)

    found, named = reading(forms=FORMS), reading(wanted={"text": "text", "label": "label"})
    assert list(found.read("validation")) == [{"text": "c", "label": 0}] and found.inputs("test") == ["text", "label"]
    assert all(found.fingerprint(split) == named.fingerprint(split) for split in ("train", "validation"))


def test_a_split_without_a_column_that_train_has_is_refused() -> None:
    origin = Given(train={"text": ["a", "b"], "pair": ["c", "d"]}, test={"text": ["e"]})
    with pytest.raises(ValueError, match="test.tsv: no column is named pair, as in the first split; found: text; name"):
        SplitReader(origin, Columns(inputs(), forms=FORMS), 0.3, None, "one", ALL_STAY).inputs("test")


def test_one_single_text_is_cut_near_its_end() -> None:
    assert held_out(["0123456789"]) == {"train": ["0123456"], "validation": ["789"]}


@pytest.mark.parametrize(("times", "said"), [(1, "1 row"), (2, "2 rows")])
def test_too_few_rows_to_hold_some_out_are_refused(times: int, said: str) -> None:
    with pytest.raises(ValueError, match=f"train.tsv: too few different rows in {said} to hold"):
        list(reader(Given(train={"source": times * ["a"], "target": times * ["b"]})).read("validation"))


def test_a_single_row_that_has_more_than_a_text_is_not_cut() -> None:
    with pytest.raises(ValueError, match="train.tsv: too few different rows in 1 row to hold"):
        list(reader(Given(train={"text": ["0123456789"], "prompt": ["a"]})).read("validation"))


def columns_of(**wanted: str) -> SplitReader:
    table = {"a": ["x, y", "y", "z"], "b": ["u", "v", "w"]}
    return SplitReader(Given(train=table), Columns(inputs(), wanted), 1e-9, None, "one", ALL_STAY)


def test_what_is_remembered_of_one_column_is_not_said_of_another() -> None:
    assert [len(column(columns_of(text=name), "validation", "text")) for name in "ab"] == [1, 1]
    found = [columns_of(text=text, label=label) for text, label in ("ba", "ab")]
    assert [reading.labels for reading in found] == [("x, y", "y", "z"), ("u", "v", "w")]
    assert len({SplitRows(columns_of(text=name), "train").cache_name for name in "ab"}) == 2


def test_another_share_holds_out_other_rows_of_the_same_data() -> None:
    for share in (0.3, 0.6, 0.3):
        assert abs(len(column(reader(Given(train=WORDS), share), "validation", "text")) / 200 - share) < 0.1


def test_sources_of_a_mixture_have_one_set_of_labels_and_all_parts() -> None:
    tables = {name: {"text": ["a", "b"], "label": labels} for name, labels in (("c", ["x", "y"]), ("d", ["x", "z"]))}
    sources = {name: SplitRows(reader(Given(train=table)), "train") for name, table in tables.items()}
    mixed = MixedRows(sources["c"].reader, "train", mixed=sources, shares={"c": 1, "d": 1})
    assert len(mixed.parts) == 2
    with pytest.raises(ValueError, match="source.mix: the sources have different labels; .*: c: x, y; d: x, z"):
        mixed.labels  # noqa: B018
    pair = SplitRows(reader(Given(train={"text": ["a", "b"], "pair": ["c", "d"]})), "train")
    mixed = MixedRows(pair.reader, "train", mixed={"c": sources["c"], "e": pair}, shares={"c": 1, "e": 1})
    with pytest.raises(
        ValueError, match="source.mix: the sources have different columns; .*: c: text, label; e: text, p"
    ):
        mixed.inputs  # noqa: B018


@pytest.mark.parametrize(("left", "train", "validation"), [(0, [""], ["ab", "cd"]), (2, ["ab"], ["cd"])])
def test_one_text_in_several_rows_is_cut_without_empty_ones(left: int, train: list[str], validation: list[str]) -> None:
    found = list(cut_text([{"text": "ab"}, {"text": "cd"}], left))
    sides = [[assigned.row["text"] for assigned in found if assigned.split == side] for side in ("train", "validation")]
    assert sides == [train, validation]


CHANGES: list[dict[str, Any]] = [
    {},
    {"columns": Columns(inputs(), {"text": "pair", "label": "label"})},
    {"validation_share": 0.4},
    {"names": ["y", "x"]},
    {"kind": "several"},
    *(
        {"filtering": Filtering(RowFilter(**rule), Duplicates(list))}
        for rule in ({"shortest": 1}, {"longest": 8}, {"longest": 9})
    ),
]


def test_a_fingerprint_tells_all_apart_that_decides_what_is_read() -> None:
    table = {"text": ["a", "b", "c"], "pair": ["d", "e", "f"], "label": ["x", "y", "x"]}
    given: dict[str, Any] = {"columns": Columns(inputs()), "validation_share": 0.3, "names": None, "kind": "one"}
    given |= {"filtering": ALL_STAY}
    found = [SplitReader(Given(train=table), **{**given, **changed}).fingerprint("train") for changed in CHANGES]
    assert len(set(found)) == len(CHANGES)


def test_a_large_source_is_asked_for_a_few_rows_to_know_what_is_held_out() -> None:
    seen: list[int] = []

    class Counted(Given):
        def parts(self, split: str) -> list[Table]:
            (table,) = super().parts(split)
            rows = table.rows
            table.rows = lambda wanted: (seen.append(1) or row for row in rows(wanted))  # type: ignore
            return [table]

    many = reader(Counted(train={"text": [f"text {i}" for i in range(5000)]}))
    assert many.holdout_threshold == 0.3 and len(seen) < 50


@pytest.mark.parametrize(("value", "entry"), [(None, ""), (3, ""), ([], ""), (["a", None], ": entry 2")])
def test_a_text_that_is_no_text_is_refused_by_row(value: object, entry: str) -> None:
    first = ["fine"] if isinstance(value, list) else ("fine" if value is None else 1)
    with pytest.raises(ValueError, match=rf"train.tsv: row \d: 'text'{entry} must be a text, got"):
        list(reader(Given(train={"text": [first, value]}, validation=WORDS)).read("train"))


def test_train_has_one_row_for_each_text_of_a_list_and_evaluation_keeps_the_list() -> None:
    rows = {"source": ["x", "y"], "target": [["a", "b"], ["c"]]}
    reading = reader(Given(train=rows, validation=rows))
    assert list(reading.read("train")) == [
        {"source": "x", "target": "a"},
        {"source": "x", "target": "b"},
        {"source": "y", "target": "c"},
    ]
    assert column(reading, "validation", "target") == [["a", "b"], ["c"]]


def test_a_blank_text_of_a_list_is_no_text_of_a_row_that_is_evaluated() -> None:
    rows = {"text": [["", "a"], ["b", " \n"], ["", " "]]}
    reading = reader(Given(train=rows, validation=rows))
    assert column(reading, "validation", "text") == [["a"], ["b"], [""]]


def test_only_one_column_may_hold_lists() -> None:
    rows = {"source": [["x"]], "target": [["a", "b"]]}
    with pytest.raises(ValueError, match="train.tsv: only one column may hold lists of texts, got source and target"):
        list(reader(Given(train=rows, validation=rows)).read("train"))
