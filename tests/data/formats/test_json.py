"""A file that is one JSON array: as it is read, and what is refused by its place."""

from itertools import islice
from pathlib import Path

import pytest
from test_readers import read, refusal, write

from zoo.data.formats import json_array

TWO = '[\n  {"prompt": "Add 1 and 2.", "text": "3"},\n  {"prompt": "Name a bird.",\n   "text": "owl"}\n]\n'


def test_each_entry_of_the_array_is_a_row(tmp_path: Path):
    found = read(write(tmp_path, "a.json", f"\ufeff{TWO}"), format="json")
    assert found == [{"prompt": "Add 1 and 2.", "text": "3"}, {"prompt": "Name a bird.", "text": "owl"}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"text": "a"}', "not JSON: expected an array, '[' (character 1)"),
        ('[{"text": "a"}, 3]', "a.json: [1]: expected a JSON object, got 3"),
        ('[{"text": "a"}, {"text": 3}]', "a.json: [1]: 'text' must be a text, got 3"),
        ('[{"text": "a"}] []', "unexpected text after the end of the array"),
        ('[{"text": "a"}', "expected ',' or ']'"),
        ('[{"text": "a", "number": 1e999}]', "[0]: 1e999"),
        ("[]", "it has no rows"),
    ],
)
def test_what_is_no_array_of_objects_is_refused_by_its_place(tmp_path: Path, text: str, said: str):
    assert said in refusal(write(tmp_path, "a.json", text), format="json")


def test_what_is_wrong_behind_an_entry_is_found_without_reading_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    real = json_array.texts_of
    monkeypatch.setattr(json_array, "PIECE", 8)
    monkeypatch.setattr(json_array, "texts_of", lambda path: islice(real(path), 9))  # more would be the file's end
    path = write(tmp_path, "a.json", '[{"text": "a"}5, ' + ", ".join(['{"text": "b"}'] * 99) + "]")
    stream = json_array.JsonStream(path)
    with pytest.raises(ValueError, match=r"expected ',' or ']' \(character 15\)"):
        list(stream.entries(""))
    assert stream.more()


def test_an_entry_without_an_end_is_not_read_to_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_array, "PIECE", 8)
    monkeypatch.setattr(json_array, "MOST", 20)
    path = write(tmp_path, "a.json", '[{"text": "a"}, {"text": "' + "b" * 999)
    assert "not JSON: [1]: Unterminated string starting at, or it has more than 20" in refusal(path, format="json")


@pytest.mark.parametrize("text", [TWO, '[{"text": "a"}]', '{\n "version": "1"}'])
def test_a_file_that_is_one_value_is_told_its_format(tmp_path: Path, text: str):
    said = "line 1: expected a JSON object per line; set 'format: json' if the file is one array, 'format: squad' if"
    assert said in refusal(write(tmp_path, "a.json", text))
