"""Spans of a text on the terminal: each with its tag behind it, and nothing of the text obeyed; several classes."""

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from zoo.cli.commands.predict import say_answer
from zoo.cli.output import say_spans
from zoo.inference.predictors.predictor import Prediction


def test_each_span_has_its_tag_behind_it(capsys: pytest.CaptureFixture[str]):
    text = "서울 is in [Korea]\x1b[2J."
    assert text[9:16] == "[Korea]"
    say_spans(text, [{"tag": "city", "start": 0, "end": 2}, {"tag": "land", "start": 9, "end": 16}])
    assert capsys.readouterr().out == "서울[city] is in [Korea][land]\\x1b[2J.\n"


def test_on_a_terminal_nothing_of_a_text_is_obeyed_either(monkeypatch: pytest.MonkeyPatch):
    shown = io.StringIO()
    monkeypatch.setattr("zoo.cli.output.results", Console(file=shown, force_terminal=True, color_system=None))
    say_spans("\x1b[1JAnn\x1b[2J left\x1b[3J.", [{"tag": "\x1b[4J", "start": 4, "end": 11}])
    assert "\x1b" not in shown.getvalue()


def test_of_several_tokens_of_one_character_one_is_shown(capsys: pytest.CaptureFixture[str]):
    say_spans("a 국 b", [{"tag": "new", "start": 2, "end": 3}] * 2 + [{"tag": "new", "start": 4, "end": 5}])
    assert capsys.readouterr().out == "a 국[new] b[new]\n"


@pytest.mark.parametrize(
    ("output", "said"), [(["toxic", "threat"], "toxic, threat"), (["toxic"], "toxic"), ([], "(none of the classes)")]
)
def test_several_classes_are_one_line_above_their_scores(
    capsys: pytest.CaptureFixture[str], output: list[str], said: str
):
    say_answer(Prediction("a text", output, {"threat": 0.25, "toxic": 0.75}))
    assert capsys.readouterr().out == f"{said}\n  threat 0.250  toxic 0.750\n"


def test_a_text_without_spans_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]):
    say_answer(Prediction("a\ttext", [], []))
    assert capsys.readouterr().out == "a\ttext\n"


ANSWER = Prediction(
    ["Who?", "Long ago, Ann\tand [Bob]\x1b[2J left."], {"text": "Ann\tand [Bob]\x1b[2J", "start": 10, "end": 25}, 1
)


def test_an_answer_in_a_text_is_one_line_of_which_nothing_is_obeyed(capsys: pytest.CaptureFixture[str]):
    say_answer(ANSWER)
    assert capsys.readouterr().out == "Ann\tand [Bob]\\x1b[2J\n"


TAGGED = Prediction("Ann left.", [{"tag": "a", "start": 0, "end": 3}], [1.0])


@pytest.mark.parametrize("output", [ANSWER, TAGGED])
def test_a_full_disk_is_named_where_a_found_text_cannot_be_written(monkeypatch: pytest.MonkeyPatch, output: Prediction):
    with Path("/dev/full").open("w") as full, pytest.raises(OSError, match="^standard output: No space left on device"):
        monkeypatch.setattr(sys, "stdout", full)
        say_answer(output)


@pytest.mark.parametrize("output", [ANSWER, TAGGED])
@pytest.mark.parametrize("terminal", [True, False])
def test_tags_and_answers_are_in_color_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, output: Prediction, terminal: bool
):
    shown = Console(file=io.StringIO(), force_terminal=terminal, color_system="standard" if terminal else None)
    monkeypatch.setattr("zoo.cli.output.results", shown)
    with shown.capture() as printed:
        say_answer(output)
    assert ("\x1b[1;32m" in printed.get() or "\x1b[34m" in printed.get()) == terminal
