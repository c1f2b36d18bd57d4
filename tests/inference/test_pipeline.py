"""Claims about `zoo.pipeline`: loaded once, it gives what `zoo predict --json` prints, as often as it is asked."""

from pathlib import Path
from typing import Any

import pytest
from looking import loaded

from zoo.inference.pipeline import Pipeline


def test_one_text_is_answered_by_a_list_of_one_as_several_are_by_a_list():
    answer = Pipeline(loaded("bert-nano", {"masked_lm": {}, "next_sentence": {}}))
    (alone,) = answer("the [MASK] cat")
    assert list(alone) == ["input", "output", "scores"] and alone["input"] == "the [MASK] cat"
    assert [found["input"] for found in answer(["a [MASK]", "the red [MASK] sleeps"])] == [
        "a [MASK]",
        "the red [MASK] sleeps",
    ]
    assert answer([]) == []
    assert answer("the cat", pair="sleeps")[0]["output"] in ("is next", "is not next")


def test_generation_settings_count_for_the_call_alone():
    answer = Pipeline(loaded("gpt2-nano", "causal_lm"))
    usual = answer("the red")
    short = answer("the red", generate={"max_new_tokens": 1})
    assert len(short[0]["output"]) < len(usual[0]["output"]) and answer("the red") == usual
    with pytest.raises(ValueError, match=r"generate.*unknown key 'beam' \(did you mean 'beams'"):
        answer("the red", generate={"beam": 2})


@pytest.mark.parametrize("texts", [None, 3, b"the", {"text": "the"}, ["the", None], [["the"]]], ids=repr)
def test_what_is_no_text_is_refused_by_name(texts: Any):
    with pytest.raises(ValueError, match=r"texts: .*(NoneType|int|bytes|dict|list)\b.*; give a str"):
        Pipeline(loaded("gpt2-nano", "causal_lm"))(texts)


def test_a_file_may_be_named_by_a_path():
    answer = Pipeline(loaded("gpt2-nano", "causal_lm"))
    assert answer(Path("the"))[0]["input"] == "the"
