"""Spans of a text on the terminal: each with its tag behind it, and nothing of the text obeyed."""

import pytest

from zoo.cli.visible import say_spans


def test_each_span_has_its_tag_behind_it(capsys: pytest.CaptureFixture[str]):
    text = "서울 is in [Korea]\x1b[2J."
    assert text[9:16] == "[Korea]"
    say_spans(text, [{"tag": "city", "start": 0, "end": 2}, {"tag": "land", "start": 9, "end": 16}])
    assert capsys.readouterr().out == "서울[city] is in [Korea][land]\\x1b[2J.\n"
