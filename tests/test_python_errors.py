"""Errors for callers from Python name arguments, and leave what is not a flag as it is."""

import pytest

from zoo.python_errors import for_python, without_flags


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("--pair: similarity compares two texts", "pair: similarity compares two texts"),
        ("out of memory; choose --device cpu", "out of memory; choose device cpu"),
        ("the model's length (--set length) is the task's", "the model's length (length) is the task's"),
        ("/home/models--acme--bert/config.json: not JSON", "/home/models--acme--bert/config.json: not JSON"),
        ("/home/--x: no such folder", "/home/--x: no such folder"),
        ("there is nothing to fill in 'a --flag b'", "there is nothing to fill in 'a --flag b'"),
        ("`zoo export RUN DIR --to zoo` writes it", "`zoo export RUN DIR --to zoo` writes it"),
        ("'<!--comment' -- or 'x'", "'<!--comment' -- or 'x'"),
    ],
)
def test_only_flags_lose_their_dashes(message: str, said: str):
    assert without_flags(message) == said


def test_an_error_keeps_its_kind_and_what_is_no_text():
    @for_python
    def fails() -> None:
        raise ValueError("--batch: too small", 3)

    with pytest.raises(ValueError) as raised:
        fails()
    assert raised.value.args == ("batch: too small", 3)
