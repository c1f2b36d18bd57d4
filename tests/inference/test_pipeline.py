"""Claims about `zoo.pipeline`: loaded once, it gives what `zoo predict --json` prints, as often as it is asked."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from looking import loaded, picture
from PIL import Image

from zoo.inference.pipeline import Pipeline
from zoo.inference.predictors.causal_lm import prompt_of


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
    assert usual == answer("the red", generate={"max_new_tokens": 5})  # as the task says
    short = answer("the red", generate={"max_new_tokens": 1})
    assert len(short[0]["output"]) < len(usual[0]["output"]) and answer("the red") == usual
    with pytest.raises(ValueError, match=r"generate.*unknown key 'beam' \(did you mean 'beams'"):
        answer("the red", generate={"beam": 2})


def test_a_classifier_that_is_told_how_to_generate_does_so():
    answer = Pipeline(loaded("gpt2-nano", {"classification": {}, "causal_lm": {}}))
    assert answer("the red")[0]["output"] in ("0", "1")
    assert answer("the red", generate={"max_new_tokens": 1})[0]["output"].startswith("the red")


@pytest.mark.parametrize("default", [torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("beams", [1, 2])
def test_scores_do_not_depend_on_torchs_default_type(default: torch.dtype, beams: int):
    answer, how = Pipeline(loaded("gpt2-nano", "causal_lm")), {"beams": beams, "max_new_tokens": 5}
    usual = answer("the red", generate=how)
    torch.set_default_dtype(default)
    try:
        assert answer("the red", generate=how) == usual
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "caller", [torch.device("meta"), torch.autocast("cpu", torch.bfloat16)], ids=["device", "cast"]
)
@pytest.mark.parametrize("objective", ["causal_lm", "classification"])
def test_answers_do_not_depend_on_the_callers_default_device_or_autocast(caller: Any, objective: str):
    answer = Pipeline(loaded("gpt2-nano", objective))
    usual = answer(["the red", "a cat"])
    with caller:
        assert answer(["the red", "a cat"]) == usual


NO_TEXTS = [None, 3, b"the", {"text": "the"}, ["the", None], [["the"]], np.array("the"), torch.tensor(3), Path("the")]


@pytest.mark.parametrize("texts", NO_TEXTS, ids=repr)
def test_what_is_no_text_is_refused_by_name(texts: Any):
    said = r"texts: .*(NoneType|int|bytes|dict|list|ndarray|Tensor|\w*Path)\b.*; give a str"
    with pytest.raises(ValueError, match=said):
        Pipeline(loaded("gpt2-nano", "causal_lm"))(texts)


@pytest.mark.parametrize("place", ["texts", "pair"])
def test_a_table_is_refused_whose_columns_would_be_asked_by_their_names(place: str):
    answer = Pipeline(loaded("bert-nano", {"masked_lm": {}, "next_sentence": {}}))
    table = pd.DataFrame({"text": ["cat"]})
    with pytest.raises(ValueError, match=f"{place}: a table, of type DataFrame, has several columns; give one of them"):
        answer(**{"texts": ["cat"], place: table})
    assert answer(table["text"], pair=table["text"]) == answer(["cat"], pair=["cat"])


def test_a_column_is_no_table_whatever_its_rows_are_called():
    answer = Pipeline(loaded("gpt2-nano", "causal_lm"))
    assert answer(pd.Series(["cat", "the"], index=["rows", "columns"])) == answer(["cat", "the"])


def test_an_image_may_be_named_by_a_path_and_is_no_object(tmp_path: Path):
    answer, file = Pipeline(loaded("captioner-transformer-nano", "captioning")), picture(tmp_path)
    assert answer(Path(file)) == answer(file)
    with pytest.raises(ValueError, match="pair: input 1 is .*; give a str"):
        Pipeline(loaded("bert-nano", "classification"))("the", pair=Path("the"))
    with Image.open(file) as image, pytest.raises(ValueError, match="of type PngImageFile; give the path of an image"):
        answer(image)


ASKED = [{"role": "user", "content": " the red cat "}, {"role": "assistant", "content": "sleeps"},
         {"role": "user", "content": "a blue dog"}]  # fmt: skip


def test_a_conversation_is_answered_as_its_form_lays_it_out():
    model = loaded("gpt2-nano", "causal_lm", columns={"messages": "m"})
    words, roles = model.tokenizer.encode(["the red cat", "sleeps", "a blue dog"]), model.tokenizer.roles
    stream = [roles.start, *words[0], roles.separator, *words[1], roles.end, *words[2], roles.separator]
    assert prompt_of(model, json.dumps({"messages": ASKED})) == stream
    answer = Pipeline(model)
    (one,) = answer(ASKED)
    assert one["input"] == {"messages": ASKED}
    for again in answer([ASKED, {"messages": ASKED}, json.dumps({"messages": ASKED})]):
        assert (again["input"], again["output"]) == (one["input"], one["output"])
    texts = ["the red cat", "{no conversation}", '{"a": "map"}']
    text, *more = answer(texts)
    assert [one["input"] for one in (text, *more)] == texts
    assert text["output"] == answer(ASKED[:1])[0]["output"]


def test_conversations_may_stand_in_whatever_can_be_counted_off():
    answer = Pipeline(loaded("gpt2-nano", "causal_lm", columns={"messages": "m"}))
    usual, column = answer([ASKED, ASKED]), np.empty(2, dtype=object)
    column[:] = [np.array(ASKED, dtype=object), {"messages": np.array(ASKED, dtype=object)}]  # as pandas reads Parquet
    assert answer(column) == answer(one for one in (ASKED, {"messages": ASKED})) == usual
    assert answer(iter(ASKED)) == answer(ASKED)
    with pytest.raises(ValueError, match="give a str"):
        answer(ASKED[0])


def test_the_space_around_a_question_is_read_as_training_reads_it():
    model = loaded("gpt2-nano", "causal_lm", "byte_bpe", columns={"messages": "m"})
    spaced = prompt_of(model, json.dumps({"messages": [{"role": "user", "content": " the red\n"}]}))
    assert prompt_of(model, " the red\n") == prompt_of(model, "the red") == spaced


def test_turns_may_be_written_as_sharegpt_does():
    answer = Pipeline(loaded("gpt2-nano", "causal_lm", columns={"messages": "m"}))
    said = [{"from": {"user": "human"}.get(t["role"], "gpt"), "value": t["content"]} for t in ASKED]
    (usual,) = answer(ASKED)
    for given in (said, [said], {"messages": np.array(said, dtype=object)}):
        (found,) = answer(given)
        assert (found["input"], found["output"]) == ({"messages": said}, usual["output"])


@pytest.mark.parametrize("column", ["from", "role"])
def test_a_conversation_may_have_a_column_that_is_called_as_a_key_of_turns(column: str):
    answer = Pipeline(loaded("gpt2-nano", "causal_lm", columns={"messages": "m"}))
    (usual,) = answer(ASKED)
    (found,) = answer([{"messages": ASKED, column: "a mailbox"}])
    assert found["output"] == usual["output"]


def test_a_model_of_other_texts_takes_no_conversation():
    model = loaded("gpt2-nano", "causal_lm", max_length=200)
    answer, line = Pipeline(model), json.dumps({"messages": ASKED})
    for given in (ASKED, {"messages": ASKED}):
        with pytest.raises(ValueError, match="give a str, since zoo did not train this checkpoint on conversations"):
            answer(given)
    assert answer(line)[0]["input"] == line  # which is a text like any other
    model.tokenizer.chat_templates["default"] = "{{ messages }}"
    with pytest.raises(ValueError, match="zoo never runs the chat template of an imported checkpoint"):
        answer(line)
    for text in ("the red cat", line[:-1]):  # JSON that breaks off is a text to continue
        assert answer(text)[0]["input"] == text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (ASKED[:2], "messages: the last turn is the assistant's, so there is nothing to answer; end with a user"),
        ({"messages": []}, "messages: there is no turn, so there is nothing to answer"),
        ([{"role": "usr", "content": "a"}], "turn 1: unknown role 'usr' .did you mean 'user'"),
        ([{"role": "user", "content": b"a"}], "texts: a conversation must be made of texts"),
        ({"messages": ASKED, "score": float("nan")}, "texts: a conversation: not JSON: NaN is not a number"),
        (json.dumps({"messages": ASKED})[:-1], "not JSON: Expecting ',' delimiter.*as the content of a turn"),
    ],
)
def test_a_conversation_that_cannot_be_answered_is_refused(given: Any, said: str):
    with pytest.raises(ValueError, match=said):
        Pipeline(loaded("gpt2-nano", "causal_lm", columns={"messages": "m"}))(given)


@pytest.mark.parametrize("text", ['{"model": "x", "messages": []} Why?', '{name}, what does "messages": mean?', "{"])
def test_a_question_about_a_conversation_is_a_question(text: str):
    assert Pipeline(loaded("gpt2-nano", "causal_lm", columns={"messages": "m"}))(text)[0]["input"] == text


@pytest.mark.parametrize(
    ("pair", "generate", "said"),
    [
        (["b"], {}, "^pair: 1 second texts for 2 first ones; give one for each"),
        (
            ["a", "b"],
            {},
            "^input 1: pair: this checkpoint was trained for causal_lm, which reads one text; leave it out",
        ),
        (["", ""], {}, "^input 1: pair: this checkpoint was trained for causal_lm"),
        (None, {"beam": 1}, "^generate: unknown key 'beam' .did you mean 'beams'"),
    ],
)
def test_errors_name_arguments_and_no_flags(pair: Any, generate: Any, said: str):
    with pytest.raises(ValueError, match=said):
        Pipeline(loaded("gpt2-nano", "causal_lm"))(["the cat", "the dog"], pair, generate)


def test_a_text_that_fills_the_model_is_called_unfinished_where_nobody_set_up_a_log(caplog: pytest.LogCaptureFixture):
    Pipeline(loaded("gpt2-nano", "causal_lm"))("the cat", generate={"max_new_tokens": 500})
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "1 of 1 texts end at the model's max_length (64 tokens), unfinished")
    ]
