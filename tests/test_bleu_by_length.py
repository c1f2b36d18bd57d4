"""BLEU by the length of the source: how examples are grouped and joined, and what is measured of each group."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from programs import load_program

SENTENCES = [
    "the red cat sleeps",
    "a blue dog runs home",
    "a dog",
    "the red cat sleeps on the house",
    "one cat runs home",
]


@pytest.fixture(scope="module")
def by_length() -> Any:
    pytest.importorskip("matplotlib", reason="the benchmark draws with matplotlib")
    return load_program("benchmarks/bleu_by_length.py")


def examples(by_length: Any) -> list[Any]:
    return [by_length.Example(sentence, sentence.upper()) for sentence in SENTENCES]


def test_every_example_stands_in_the_group_of_its_words(by_length: Any):
    given = examples(by_length)
    written = [e.target if e.words < 5 else "wrong words" for e in given]
    groups = by_length.scores_by_length(written, given, [1, 4, 5, 9])
    assert [(g["words"], g["examples"]) for g in groups] == [([1, 3], 1), ([4, 4], 2), ([5, 8], 2)]
    assert groups[1]["bleu"] == 100 and groups[2]["bleu"] == 0


def test_a_group_without_examples_is_refused(by_length: Any):
    with pytest.raises(ValueError, match="--edges: no source has 8 to 9 words; choose others"):
        by_length.scores_by_length(SENTENCES, examples(by_length), [1, 8, 10])


def test_neighbors_are_joined_on_both_sides_and_what_is_left_over_goes(by_length: Any):
    joined = by_length.join_examples(examples(by_length), 2)
    assert [e.source for e in joined] == [
        "the red cat sleeps a blue dog runs home",
        "a dog the red cat sleeps on the house",
    ]
    assert [e.target for e in joined] == [e.source.upper() for e in joined]


def test_an_interval_is_wider_where_examples_differ_more(by_length: Any):
    references = ["one two three four five six"] * 20
    steady = by_length.score(["one two three four five none"] * 20, references)
    mixed = by_length.score(references[:10] + ["one none three none five none"] * 10, references)
    assert steady["interval"] == 0 < mixed["interval"]


class Tokenizer:
    def encode(self, texts: list[str]) -> list[list[str]]:
        return [text.split() for text in texts]


def test_runs_are_compared_on_the_examples_that_all_can_read_and_drawn(
    by_length: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    room, weights = {"short": 7, "long": 99}, {7: 0.5, 99: 0.25}  # a text of 7 words leaves no room for its end

    def load(run: str) -> Any:
        part = argparse.Namespace(max_length=room[run])
        model = argparse.Namespace(encoder=part, stream=part)
        task = argparse.Namespace(generate={})
        return argparse.Namespace(name=run, model=model, task=task, tokenizer=Tokenizer())

    asked = []

    def predict(loaded: Any, texts: list[str], pairs: None, settings: Any) -> list[Any]:
        asked.append(loaded.name)
        return [argparse.Namespace(output=text.upper() if loaded.name == "long" else "no") for text in texts]

    monkeypatch.setattr(by_length, "load_checkpoint", load)
    monkeypatch.setattr(by_length, "parameters", lambda model: 2_000_000)
    monkeypatch.setattr(by_length, "fingerprint", lambda model: weights[model.stream.max_length])
    monkeypatch.setattr(by_length, "read_examples", lambda *given: examples(by_length))
    monkeypatch.setattr(by_length, "predict", predict)
    picture = tmp_path / "pictures" / "found.png"
    words = ["short", "long", "--edges", "1", "4", "6", "--texts", str(tmp_path / "kept"), "-o", str(picture)]
    monkeypatch.setattr(sys, "argv", ["bleu_by_length.py", *words])
    by_length.main()
    figures = json.loads(picture.with_suffix(".json").read_text())
    assert figures["left_out"] == 1
    assert [g["examples"] for g in figures["runs"]["long"]["groups"]] == [1, 3]
    assert [figures["runs"][run]["all"]["bleu"] for run in room] == [0, 100]
    assert picture.stat().st_size > 5000
    by_length.main()
    assert asked == ["short", "long"]  # the second time the kept translations are read
    weights[99] = 0.125
    by_length.main()
    assert asked == ["short", "long", "long"]  # but for a run that was trained anew
