"""Claims about `zoo predict` on lines of standard input: each is answered or named by its number."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Said

Zoo = Callable[..., Said]
RunOf = Callable[[str], Path]


def typed(data: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")


def test_a_line_that_is_too_long_costs_no_other(zoo: Zoo, run_of: RunOf, monkeypatch: pytest.MonkeyPatch):
    lines = b"the cat\n" + b"cat " * 70 + b"\na dog\r\n"
    monkeypatch.setattr("sys.stdin", typed(lines))
    said = zoo("predict", run_of("classify"), "--json")
    first, second, third = said.json
    assert said.status == 1 and (first["input"], third["input"]) == ("the cat", "a dog")
    assert second["line"] == 2 and "tokens too long" in second["error"]
    monkeypatch.setattr("sys.stdin", typed(lines))
    said = zoo("predict", run_of("classify"))
    assert said.status == 1 and "error: line 2: the text is" in said.err and said.out.count("pos ") == 2
    # an empty line stands for the answer; below a class are the scores
    assert [bool(line) for line in said.out.splitlines()] == [True, True, False, True, True]


def test_a_dash_alone_stands_for_standard_input(zoo: Zoo, run_of: RunOf, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", typed(b"the cat\na dog\n"))
    assert [one["input"] for one in zoo("predict", run_of("classify"), "-", "--json").json] == ["the cat", "a dog"]


def test_of_texts_that_are_arguments_all_are_answered_or_none(zoo: Zoo, run_of: RunOf):
    said = zoo("predict", run_of("classify"), "the cat", "cat " * 70)
    assert (said.status, said.out) == (2, "") and "error: input 2: the text is" in said.err


def test_a_mark_of_the_byte_order_is_no_part_of_the_first_line(
    zoo: Zoo, run_of: RunOf, monkeypatch: pytest.MonkeyPatch
):
    mark = b"\xef\xbb\xbf"
    monkeypatch.setattr("sys.stdin", typed(mark + b"the cat\n" + mark + b"a dog\n"))
    first, second = zoo("predict", run_of("classify"), "--json").json
    assert (first["input"], second["input"]) == ("the cat", "\ufeffa dog")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (b"the cat\ncaf\xe9\n", "standard input: line 2: byte 0xE9 at column 4 is not UTF-8; convert the text"),
        (b"the\0cat\n", "standard input: line 1: holds a NUL character, which a text cannot have"),
        (b"the cat\rthe dog\r", "standard input: its lines end with CR alone, as on a classic Mac; convert them to LF"),
    ],
)
def test_a_line_that_is_no_text_is_named(
    zoo: Zoo, run_of: RunOf, monkeypatch: pytest.MonkeyPatch, given: bytes, words: str
):
    monkeypatch.setattr("sys.stdin", typed(given))
    said = zoo("predict", run_of("classify"))
    assert said.status == 2 and words in said.err


@pytest.mark.parametrize(
    "given", [b"the cat\r sat", b"the cat\r\nthe dog\r\n", b"the cat\nthe\rdog\rsat", b"a\rb\rc\n"]
)
def test_a_cr_within_a_line_is_text(zoo: Zoo, run_of: RunOf, monkeypatch: pytest.MonkeyPatch, given: bytes):
    monkeypatch.setattr("sys.stdin", typed(given))
    found = zoo("predict", run_of("classify"), "--json").json
    assert [one["input"] for one in found] == [
        line.removesuffix("\r") for line in given.decode().rstrip("\n").split("\n")
    ]


def test_predict_says_when_it_waits_for_the_keyboard(zoo: Zoo, run_of: RunOf, monkeypatch: pytest.MonkeyPatch):
    keyboard = typed(b"the cat\n")
    monkeypatch.setattr(keyboard, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin", keyboard)
    said = zoo("predict", run_of("classify"))
    assert said.status == 0 and "reading texts from the keyboard, one per line; end with Ctrl-D" in said.err


@pytest.mark.parametrize("given", [None, typed(b"")], ids=["closed", "empty"])
def test_a_closed_or_empty_standard_input_has_no_lines(
    zoo: Zoo, run_of: RunOf, monkeypatch: pytest.MonkeyPatch, given: io.TextIOWrapper | None
):
    monkeypatch.setattr("sys.stdin", given)
    said = zoo("predict", run_of("lm"))
    assert said.status == 2 and "no text; give one, or lines on standard input" in said.err
