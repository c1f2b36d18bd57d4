"""SQuAD's JSON: as it is read, and what is refused by its place."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_readers import read, refusal, write

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
    assert read(write(tmp_path, "a.json", squad(WHEN)), format="squad")[0]["answers"] == {"text": [], "start": []}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"answers": [{"text": "Normans", "answer_start": 0}]}, "the answer 'Normans' does not begin with character 0"),
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
        ('{"version": 1}', "'data' must be a list, got None; is this SQuAD's JSON?"),
        ("[1]", "expected a JSON object"),
        (
            '{"data": [{"paragraphs": [{"qas": [{"question": "a"}]}]}]}',
            "qas[0]: 'context' must be a text",
        ),
    ],
)
def test_what_is_no_squad_is_refused(tmp_path: Path, text: str, said: str):
    assert said in refusal(write(tmp_path, "a.json", text), format="squad")
