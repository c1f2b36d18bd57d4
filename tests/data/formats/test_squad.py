"""SQuAD's JSON: as it is read, and what is refused by its place."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from test_readers import read, refusal, write

from zoo.data.formats import json_array

CONTEXT = "The Normans came from Denmark, Iceland and Norway."


def squad(*questions: dict[str, Any]) -> str:
    empty = {"title": "none", "paragraphs": []}
    return json.dumps({"version": "2", "data": [empty, {"paragraphs": [{"context": CONTEXT, "qas": list(questions)}]}]})


WHO = {"id": "1", "question": "Who came?", "answers": [{"text": "The Normans", "answer_start": 0}]}
WHEN = {"id": "2", "question": "When?", "answers": [], "is_impossible": True, "plausible_answers": [{"text": "x"}]}


def test_each_question_is_a_row_with_its_context(tmp_path: Path):
    first, second = read(write(tmp_path, "a.json", squad(WHO, WHEN)), format="squad")
    assert first["question"] == "Who came?" and first["context"] == second["context"] == CONTEXT
    assert first["answers"] == {"text": ["The Normans"], "start": [0]}


def test_an_impossible_question_has_no_answer(tmp_path: Path):
    for row in read(write(tmp_path, "a.json", squad(WHEN, {**WHO, "is_impossible": True})), format="squad"):
        assert row["answers"] == {"text": [], "start": []}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"answers": [{"text": "Normans", "answer_start": 0}]}, "the answer 'Normans' does not start at character 0"),
        ({"answers": [{"text": "Danes", "answer_start": 4}]}, "the answer 'Danes' is not in the context"),
        ({"question": " "}, "the question is empty"),
    ],
)
def test_a_wrong_question_is_refused_by_its_place_and_its_id(tmp_path: Path, changed: dict[str, Any], said: str):
    found = refusal(write(tmp_path, "a.json", squad(WHO, {**WHO, "id": "b7", **changed})), format="squad")
    assert "a.json: data[1].paragraphs[0].qas[1] (id b7): " + said in found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"version": 1}', "no list 'data'; keys: version"),
        ('{"data": 3}', "'data' must be a list, got 3"),
        ("[1]", "expected a JSON object"),
        ("", "expected a JSON object with a list 'data' (character 1)"),
        ('{"data": [{"paragraphs": []}', "expected ',' or ']' (character 29)"),
        ('{"data": [{"paragraphs": []} 3]}', "expected ',' or ']' (character 30)"),
        ('{"data": [{"paragraphs": []},]}', "expected a value between ',' and ']'"),
        ('{"data": [{"paragraphs": [}]}', "data[0]: Expecting value"),
        ('{"data": [{"a": 1, "a": 2}]}', "data[0]: the key 'a' is written twice"),
        ('{"data": [], "data": []}', "the key 'data' is written twice"),
        ('{"data": [{"a": NaN}]}', "data[0]: NaN is not a number"),
        ('{"data": [{"paragraphs": [3]}]}', "a.json: data[0].paragraphs[0]: expected a map, got 3"),
        ('{"data": []} []', "unexpected text after the end of the object"),
        (
            '{"data": [{"paragraphs": [{"qas": [{"question": "a"}]}]}]}',
            "qas[0]: 'context' must be a text",
        ),
    ],
)
def test_what_is_no_squad_is_refused(tmp_path: Path, text: str, said: str):
    assert said in refusal(write(tmp_path, "a.json", text), format="squad")


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_a_file_is_read_alike_in_pieces_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int):
    tree = {"version": 1.25, "data": [{"paragraphs": ['naïve 아이 \\ "', 12]}, 345, "x"], "more": {"a": [1e3, None]}}
    for text in (json.dumps(tree), json.dumps(tree, ensure_ascii=False, indent=2)):
        monkeypatch.setattr(json_array, "PIECE", size)
        assert list(json_array.read_entries(write(tmp_path, "a.json", text), "data")) == tree["data"]


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path):
    (tmp_path / "a.json").write_bytes(b'{"data": ["\xff"]}')
    with pytest.raises(ValueError, match="a.json: byte 0xFF is not UTF-8"):
        list(json_array.read_entries(tmp_path / "a.json", "data"))


def test_a_large_file_is_never_held_whole(tmp_path: Path):
    article = {"paragraphs": [{"context": "a" * 20_000, "qas": []}]}
    path = write(tmp_path, "a.json", json.dumps({"data": [article] * 300}))
    tracemalloc.start()
    assert sum(1 for _ in json_array.read_entries(path, "data")) == 300
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 6_000_000 and peak < 3_000_000
