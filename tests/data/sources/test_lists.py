"""Words and their tags, answers and choices: as they are read, and what is refused."""

from collections.abc import Mapping
from typing import Any

import pytest
from written_rows import ALL_STAY, Given

from zoo.data.columns.choices import normalize_choices
from zoo.data.columns.columns import Columns, check_named
from zoo.data.sources.splits.reader import SplitReader

CONTEXT = "서울 is in Korea, and Korea is far."
INPUTS = ("words", "tags", "question", "context", "answers", "choices", "label")


def reader(
    origin: Given, names: list[str] | None = None, wanted: Mapping[str, str | list[str]] | None = None
) -> SplitReader:
    return SplitReader(origin, Columns(INPUTS, wanted or {}), 0.3, names, "one", ALL_STAY)


def read(split: str = "train", names: list[str] | None = None, **columns: list[Any]) -> dict[str, list[Any]]:
    tables = {"train": columns} | ({} if split == "train" else {split: columns})
    rows = list(reader(Given(validation=columns, **tables), names=names).read(split))
    return {name: [row[name] for row in rows] for name in rows[0]}


def read_by(wanted: dict[str, Any], given: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """The rows of train, of columns that a task names."""
    return list(reader(Given(train=given, validation=given), wanted=wanted).read("train"))


def test_tags_are_numbers_of_their_sorted_names():
    assert read(words=[["a", "b"], ["c"]], tags=[["O", "B"], ["O"]])["tags"] == [[1, 0], [1]]


def test_lists_of_words_stay_rows_of_train():
    assert read(words=[["a", "b"], ["c"]], tags=[["O", "B"], ["O"]])["words"] == [["a", "b"], ["c"]]


def test_tags_that_are_positions_are_read_as_such():
    assert read(words=[["a", "b"]], tags=[[1, 0]], names=["N", "V"])["tags"] == [[1, 0]]


def test_a_test_split_may_keep_its_tags_to_itself():
    origin = Given(train={"words": [["a", "b"]], "tags": [["N", "V"]]}, test={"words": [["c", "d"], ["e"]]})
    assert [row["tags"] for row in reader(origin).read("test")] == [[-1, -1], [-1]]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"words": [["a"], ["a", "b"]], "tags": [["N"], ["N"]]}, r"train.tsv: row 2: 2 words, but 1 tag;"),
        ({"words": ["a b"], "tags": [["N", "V"]]}, r"row 1: 'words' must be a list of texts, got 'a b'"),
        ({"words": [["a", None]], "tags": [["N", "V"]]}, r"row 1: 'words': entry 2 must be a text, got None"),
        ({"words": [["a"]], "tags": [[1.5]]}, r"row 1: 'tags' must be a list of texts or whole numbers, got \[1.5\]"),
        ({"words": [["a"], ["b"]], "tags": [["N"], None]}, r"row 2: the words have no tags"),
    ],
)
def test_words_without_a_tag_each_are_refused(columns: dict[str, Any], said: str):
    with pytest.raises(ValueError, match=said):
        read(names=["N", "V"], **columns)


def test_tags_that_are_no_list_are_refused_where_their_names_are_looked_for():
    said = "train.tsv: row 1: 'tags' must be a list of texts or whole numbers, got 'N V'"
    with pytest.raises(ValueError, match=said):
        assert reader(Given(train={"words": [["a", "b"]], "tags": ["N V"]})).labels


def test_an_unknown_tag_is_refused_with_its_place_and_the_nearest_one():
    train, validation = ({"words": [["a", "b"]], "tags": [["B-loc", tag]]} for tag in ("O", "B-lok"))
    with pytest.raises(ValueError, match="validation.tsv: row 1, entry 2: unknown label 'B-lok'.*did you mean 'B-loc'"):
        list(reader(Given(train=train, validation=validation)).read("validation"))


@pytest.mark.parametrize(
    "given",
    [
        {"text": ["Korea", "Korea"], "answer_start": [9, 20]},
        [{"text": "Korea", "answer_start": 9}, {"text": "Korea", "answer_start": 20}],
    ],
)
def test_answers_are_read_as_data_sets_write_them(given: Any):
    found = read(question=["Where?"], context=[CONTEXT], answers=[given])["answers"]
    assert found == [{"text": ["Korea", "Korea"], "start": [9, 20]}] and CONTEXT[20:25] == "Korea"


def test_an_answer_without_a_place_is_the_first_that_reads_so():
    assert read(question=["Where?"], context=[CONTEXT], answers=[["Korea"]])["answers"][0]["start"] == [9]


def test_an_answer_may_stand_at_either_end_of_the_context():
    for text, start in ((CONTEXT[:5], 0), (CONTEXT[-1:], len(CONTEXT) - 1), (CONTEXT, 0)):
        given = {"text": text, "answer_start": start}
        found = read(question=["Where?"], context=[CONTEXT], answers=[given])["answers"]
        assert found == [{"text": [text], "start": [start]}]


def test_a_question_may_have_no_answer():
    assert read(question=["Why?"], context=[CONTEXT], answers=[[]])["answers"] == [{"text": [], "start": []}]


@pytest.mark.parametrize(
    ("question", "answers", "said"),
    [
        ("Where?", ["Paris"], r"train.tsv: row 1: the answer 'Paris' is not in the context"),
        ("Where?", [{"text": "Korea", "answer_start": 10}],
         r"the answer 'Korea' does not start at character 10 of the context, which reads 'orea,'; expected 9"),
        ("Where?", [{"text": "Korea", "answer_start": len(CONTEXT)}],
         rf"start {len(CONTEXT)} of the answer 'Korea' is outside the context of {len(CONTEXT)} characters; expected"),
        ("Where?", [{"text": "Korea", "answer_start": -1}],
         rf"start -1 of the answer 'Korea' is outside the context of {len(CONTEXT)} characters; expected 9"),
        ("Where?", [{"text": "Korea", "answer_start": "9"}],
         r"start of the answer 'Korea' must be a whole number, such as 9; got '9'"),
        ("Where?", [{"text": ""}], r"the answer '' must be a text; for a question without an answer, give an empty"),
        ("Where?", [{"text": " "}], r"the answer ' ' must be a text; for a question without an answer, give an empty"),
        (" ", ["Korea"], r"row 1: the question is empty"),
        ("Where?", [{"text": ["Korea"], "answer_start": [1, 2]}], r"'answers' must be a map of two lists"),
    ],
)  # fmt: skip
def test_answers_that_do_not_stand_there_are_refused(question: str, answers: Any, said: str):
    with pytest.raises(ValueError, match=said):
        read(question=[question], context=[CONTEXT], answers=[answers])


def test_the_right_choice_is_the_number_that_the_label_says():
    rows = {"context": ["a", "b"], "choices": [["x", "y"], ["x", "y", "z"]], "label": [1, "2"]}
    assert read(**rows)["label"] == [1, 2]


def test_the_right_choice_may_be_named_by_its_letter_in_all_rows():
    rows = {"context": ["a", "b"], "choices": [["x", "y"], ["x", "y", "z"]]}
    assert read(**rows, label=["B", "C"])["label"] == [1, 2]
    with pytest.raises(ValueError, match="row 2: the label is '1', but other rows have letters; write one or"):
        read(**rows, label=["B", "1"])


@pytest.mark.parametrize(
    ("label", "said"),
    [
        (2, r"row 1: the label is 2, but the 2 choices are counted from 0"),
        ("x", r"row 1: the label must be the number of the right choice, from 0, or its letter, from A; got 'x'"),
        ("C", r"row 1: the label is C, but the 2 choices are lettered from A"),
    ],
)
def test_a_label_that_is_no_choice_is_refused(label: Any, said: str):
    with pytest.raises(ValueError, match=said):
        read(context=["a"], choices=[["x", "y"]], label=[label])


ARC = [
    {"stem": "Which is hot?", "choices": [{"text": "ice", "label": "A"}, {"text": "fire", "label": "B"}]},
    {
        "stem": "Which is red?",
        "choices": [{"text": t, "label": str(n)} for n, t in enumerate(("sky", "sea", "rose"), 1)],
    },
]


def test_choices_with_labels_of_their_own_are_read_inside_of_maps():
    given = {"question": ARC, "answerKey": ["B", "3"]}  # letters and numbers from 1: each row says what they mean
    columns = {"context": "question.stem", "choices": "question.choices", "label": "answerKey"}
    assert read_by(columns, given) == [
        {"context": "Which is hot?", "choices": ["ice", "fire"], "label": 1},
        {"context": "Which is red?", "choices": ["sky", "sea", "rose"], "label": 2},
    ]


SWAG = {"sent1": ["She ran.", "He sat."], "sent2": ["Then she", ""], "ending0": ["fell.", "a"], "ending1": ["b", "c"]}


def test_several_columns_are_the_choices_or_the_lines_of_a_text():
    wanted = {"context": ["sent1", "sent2"], "choices": ["ending0", "ending1"], "label": "gold"}
    assert read_by(wanted, {**SWAG, "gold": [1, 0]}) == [
        {"context": "She ran.\nThen she", "choices": ["fell.", "b"], "label": 1},
        {"context": "He sat.", "choices": ["a", "c"], "label": 0},
    ]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"context": ["sent1", "sent3"]}, "train.tsv: unknown column 'sent3' .did you mean"),
        ({"context": ["sent1", "gold"]}, "train.tsv: row 1: 'gold' must be a text, got 1"),
    ],
)
def test_several_columns_that_are_no_texts_are_refused(columns: dict[str, str | list[str]], said: str):
    with pytest.raises(ValueError, match=said):
        read_by(columns, {**SWAG, "gold": [1, 0]})


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"label": ["a", "b"]}, r"task.columns.label: a list must name two or more columns of texts, of choices"),
        ({"words": ["a", "b"]}, r"task.columns.words: a list must name two or more columns"),
        ({"text": ["a"]}, r"task.columns.text: a list must name two or more columns .* got \['a'\]"),
        ({"text": ["a", "b"], "pair": "b"}, r"two inputs cannot read the same column; 'b' is read as text and as pair"),
    ],
)
def test_an_input_that_reads_one_column_takes_no_list(columns: dict[str, str | list[str]], said: str):
    with pytest.raises(ValueError, match=said):
        check_named(columns, "task.columns", several=False)


def test_choices_are_also_read_from_a_map_of_two_lists():
    choices = [{"text": ["ice", "fire"], "label": ["A", "B"]}, {"text": ["sky", "rose"], "label": ["1", "2"]}]
    found = read(context=["a", "b"], choices=choices, label=["A", "2"])
    assert (found["choices"], found["label"]) == ([["ice", "fire"], ["sky", "rose"]], [0, 1])


@pytest.mark.parametrize(
    ("choices", "label", "said"),
    [
        (
            {"text": ["x", "y"], "label": ["A", "B"]},
            "C",
            "row 1: the label 'C' must be that of one choice: A, B",
        ),
        (
            {"text": ["x", "y"], "label": ["A", "A"]},
            "A",
            "row 1: the label 'A' must be that of one choice: A, A",
        ),
        ({"text": ["x", "y"], "label": ["A"]}, "A", "row 1: 'choices' must be a list of texts, a map of two lists"),
        ([{"text": "x"}, {"text": "y"}], "A", "row 1: 'choices' must be a list of texts, a map of two lists"),
    ],
)
def test_labels_that_tell_no_choice_are_refused(choices: Any, label: str, said: str):
    with pytest.raises(ValueError, match=said):
        read(context=["a"], choices=[choices], label=[label])


@pytest.mark.parametrize("label", ["", -1, "-1", None])
def test_choices_whose_label_is_withheld_are_texts_too(label: Any):
    row = {"choices": {"text": ["x", "y"], "label": ["A", "B"]}, "label": label}
    normalize_choices(row)
    assert row == {"choices": ["x", "y"], "label": label}


def test_an_entry_that_a_map_lacks_is_named_with_its_row():
    columns = {"context": "question.stm", "choices": "question.choices", "label": "answerKey"}
    with pytest.raises(ValueError, match=r"row 1: column 'question\.stm' is missing"):
        read_by(columns, {"question": ARC, "answerKey": ["B", "3"]})


def test_a_column_with_a_dot_in_its_name_is_that_column():
    given = {"a": [{"b": "inside"}], "a.b": ["beside"], "choices": [["x", "y"]], "label": [0]}
    (row,) = read_by({"context": "a.b", "choices": "choices", "label": "label"}, given)
    assert row["context"] == "beside"


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        (["one"], r"row 1: 'choices' must be a list of 2 to 64 texts, got \['one'\]"),
        (["one", " "], r"row 1: choice 2 of 2 is empty"),
    ],
)
def test_choices_that_are_none_are_refused(choices: list[str], said: str):
    with pytest.raises(ValueError, match=said):
        read(context=["Which?"], choices=[choices], label=[0], names=["0", "1"])
