"""Claims about predictions: each input goes to the objective that it fits, and answers carry the right names."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from looking import loaded, overflowing

from zoo.inference.loaded import Loaded
from zoo.inference.model_inputs import BATCH, source_inputs
from zoo.inference.predict import Unanswered, predict, predict_each
from zoo.inference.predictors.masked_lm import TOP
from zoo.inference.predictors.predictor import Prediction, predictors
from zoo.models.generation.generate import generate
from zoo.models.generation.settings import GenerateSettings
from zoo.models.heads.scores import Scores
from zoo.models.model import Model
from zoo.objectives.objective import objectives
from zoo.runs.run import RunFiles, create_run
from zoo.runs.saved import open_run

BOTH = {"masked_lm": {}, "next_sentence": {}}
SETTINGS = GenerateSettings(max_new_tokens=3)


def prefer(model: Loaded, head: str, label: int) -> None:
    """Let a head always find one label likeliest."""
    linear = [module for module in model.model.heads[head].modules() if isinstance(module, torch.nn.Linear)][-1]
    with torch.no_grad():
        linear.weight.zero_()
        linear.bias.zero_()
        linear.bias[label] = 2.0


def test_a_checkpoint_of_two_objectives_fills_masks_and_judges_pairs():
    bert = loaded("bert-nano", BOTH)
    (filled,) = predict(bert, ["the red [MASK] sleeps"], None, SETTINGS)
    assert len(filled.scores) == 1 and "[MASK]" not in filled.output and len(filled.scores[0]) == TOP == 5
    (judged,) = predict(bert, ["the red cat"], ["sleeps"], SETTINGS)
    assert judged.input == ["the red cat", "sleeps"] and judged.output in ("is next", "is not next")


@pytest.mark.parametrize(("name", "objective"), [("bert-nano", "tagging"), ("electra-nano", "replaced_token")])
def test_outputs_that_are_no_numbers_are_not_taken_for_a_text_in_which_nothing_is_found(name: str, objective: str):
    model = overflowing(loaded(name, objective))
    model = replace(model, task=replace(model.task, labels=["O", "B-animal"] if objective == "tagging" else None))
    with pytest.raises(RuntimeError, match="the model's outputs are not finite"):
        predict(model, ["the red cat"], None, SETTINGS)


def failing(*_: Any, **__: Any) -> None:
    raise ValueError("expected 3 axes")


@pytest.mark.parametrize(
    ("name", "objective", "text"),
    [
        ("bert-nano", "masked_lm", "the [MASK]"),
        ("bert-nano", "classification", "the"),
        ("gpt2-nano", "causal_lm", "the"),
        ("transformer-nano", "translation", "the"),
    ],
)
def test_a_librarys_value_error_is_no_wrong_request(name: str, objective: str, text: str):
    model = loaded(name, objective)
    model.model.stream.forward = model.model.stream.step = failing  # type: ignore[method-assign, union-attr]
    with pytest.raises(RuntimeError, match="expected 3 axes"):
        predict(model, [text], None, SETTINGS)


def test_a_text_that_fits_no_objective_is_told_what_each_needs():
    words = r"nothing to fill in 'the cat': write \[MASK\] where a word is missing; or --pair: next_sentence compares"
    with pytest.raises(ValueError, match=words):
        predict(loaded("bert-nano", BOTH), ["the cat"], None, SETTINGS)


def scored(objective: str, row: list[float], weight: list[list[float]]) -> Loaded:
    """A model whose head says W x in bfloat16, whatever it reads."""
    model, x = loaded("bert-nano", objective), torch.tensor(row).bfloat16()
    model.model.score = lambda _, states, *__: Scores(x.expand(*states.shape[:-1], 2), torch.tensor(weight))  # type: ignore[method-assign]
    return model


@pytest.mark.parametrize(("second", "best"), [("cat", "dog"), ("dog", "cat")])
def test_masks_are_filled_by_scores_that_bfloat16_would_round_to_one_number(second: str, best: str):
    ids, weight = loaded("bert-nano", "masked_lm").tokenizer.encode([second, best]), [[0.0, 0.0]] * 300
    weight[int(ids[0][0])], weight[int(ids[1][0])] = [20, 0], [20, 20]
    (found,) = predict(scored("masked_lm", [1, 0.001], weight), ["the red [MASK]"], None, SETTINGS)
    assert found.output == f"the red {best}" and list(found.scores[0])[:2] == [best, second]
    shares = [1 / (1 + torch.e**-0.02), 1 / (1 + torch.e**0.02)]
    assert list(found.scores[0].values())[:2] == pytest.approx(shares, abs=1e-4)


def test_pairs_are_told_apart_where_bfloat16_rounds_both_scores_to_one_number():
    (found,) = predict(scored("next_sentence", [1, 0.001], [[20, 0], [20, 20]]), ["the cat"], ["sleeps"], SETTINGS)
    assert found.output == "is not next" and found.scores["is not next"] > 0.504


def test_replaced_tokens_are_found_where_bfloat16_rounds_their_scores_to_nothing():
    (found,) = predict(scored("replaced_token", [1, 1], [[-20, 20.02]]), ["the cat"], None, SETTINGS)
    assert [part["text"] for part in found.output] == ["the", "cat"]
    assert found.scores == pytest.approx([1 / (1 + torch.e**-0.02)] * 2, abs=1e-5)


@pytest.mark.parametrize(("label", "answer"), [(0, "is next"), (1, "is not next")])
def test_label_0_of_next_sentence_means_is_next(label: int, answer: str):
    bert = loaded("bert-nano", "next_sentence")
    prefer(bert, "next_sentence", label)
    (found,) = predict(bert, ["the red cat"], ["sleeps"], SETTINGS)
    assert found.output == answer and found.scores[answer] == pytest.approx(1 / (1 + torch.e**-2), abs=1e-5)


def test_classes_have_the_names_of_their_positions():
    model = loaded("bert-nano", "classification")
    model = replace(model, task=replace(model.task, labels=["zebra", "ape"]))
    prefer(model, "classification", 0)
    (found,) = predict(model, ["the red cat"], None, SETTINGS)
    assert found.output == "zebra" and found.scores["zebra"] > 0.8 and list(found.scores) == ["zebra", "ape"]


def test_a_text_may_fill_the_model_and_is_too_long_by_one_token():
    model = loaded("bert-nano", "classification", "characters", max_length=9)
    (found,) = predict(model, ["a" * 7], None, SETTINGS)
    assert found.output in ("0", "1")
    with pytest.raises(
        ValueError, match="^the text is 1 token too long: the model reads at most 9, special tokens inc"
    ):
        predict(model, ["a" * 8], None, SETTINGS)


def test_a_source_ends_as_in_training_and_is_too_long_by_one_token():
    model = loaded("transformer-nano", "translation")
    first, second = (ids.tolist() for ids in model.tokenizer.encode(["the red cat sleeps", "dogs"]))
    (tokens, _), roles = source_inputs(model, [np.array(first), np.array(second)]), model.tokenizer.roles
    padding = [roles.pad] * (len(first) - len(second))
    assert tokens.tolist() == [[*first, roles.end], [*second, roles.end, *padding]]
    assert model.model.encoder is not None
    most = model.model.encoder.max_length
    assert source_inputs(model, [np.ones(most - 1, dtype=np.int64)])[0].shape == (1, most)
    words = f"the text has {most + 1} tokens, special tokens included: the model reads at most {most}"
    with pytest.raises(ValueError, match=words):
        source_inputs(model, [np.ones(most, dtype=np.int64)])


def test_a_classifier_that_also_generates_does_so_where_that_is_asked_for():
    model = loaded("gpt2-nano", {"classification": {}, "causal_lm": {}})
    assert predict(model, ["the red"], None, SETTINGS)[0].output in ("0", "1")
    assert predict(model, ["the red"], None, SETTINGS, writes=True)[0].output.startswith("the red")


def test_generation_settings_of_a_model_that_generates_nothing_are_refused():
    with pytest.raises(ValueError, match=r"--set generate.…: .* trained for classification, which generates no text"):
        predict(loaded("bert-nano", "classification"), ["the"], None, SETTINGS, writes=True)


def test_an_input_that_cannot_be_answered_does_not_keep_the_others_from_it():
    bert, texts = loaded("bert-nano", BOTH), ["a [MASK] dog", "no mask", "[MASK] " * 300, "[MASK]", "cats"] * 9
    found = list(predict_each(bert, texts, None, SETTINGS))
    assert [isinstance(answer, Prediction) for answer in found] == [True, False, False, True, False] * 9
    assert [answer.line for answer in found if isinstance(answer, Unanswered)][:3] == [2, 3, 5]
    assert "the text is" in found[2].error and "tokens too long" in found[2].error
    alone = predict(bert, ["[MASK]"], None, SETTINGS)[0]
    for one in found[3::5]:  # shorter than others that are read with it
        assert isinstance(one, Prediction) and one.output == alone.output
        assert one.scores[0] == pytest.approx(alone.scores[0], abs=1e-5)


def test_a_typed_text_that_is_too_long_is_named_by_its_number():
    with pytest.raises(ValueError, match="^input 2: the text is .* tokens too long: the model reads at most"):
        predict(loaded("bert-nano", "masked_lm"), ["a [MASK]", "[MASK] " * 300], None, SETTINGS)
    with pytest.raises(ValueError, match="a prompt must have 1 to 64 tokens, special tokens included; got 301"):
        predict(loaded("gpt2-nano", "causal_lm"), ["cats " * 300], None, SETTINGS)


def test_a_head_that_was_never_trained_does_not_answer(tmp_path: Path):
    bert = replace(loaded("bert-nano", BOTH), untrained=("masked_lm",))
    with pytest.raises(ValueError, match=r"the head 'masked_lm' is newly initialized .* with zoo finetune on a task"):
        predict(bert, ["a [MASK] dog"], None, SETTINGS)
    assert predict(bert, ["a dog"], ["runs"], SETTINGS)[0].output.startswith("is")


@pytest.mark.parametrize(
    ("name", "objective", "text", "beams"),
    [
        ("bert-nano", "masked_lm", "the [MASK]", 1),
        ("bert-nano", "classification", "the", 1),
        ("gpt2-nano", "causal_lm", "the", 1),
        ("gpt2-nano", "causal_lm", "the", 3),
        ("transformer-nano", "translation", "the", 1),
    ],
)
def test_outputs_that_are_not_finite_are_no_answer(name: str, objective: str, text: str, beams: int):
    model = loaded(name, objective)
    with torch.no_grad():
        for parameter in model.model.stream.parameters():
            parameter.fill_(3e38)
    message = r"^the model's outputs are not finite \(NaN or infinite\): the weights are damaged, .* run zoo check"
    with pytest.raises(RuntimeError, match=message):
        predict(model, [text], None, replace(SETTINGS, beams=beams))


def test_the_fast_way_can_be_turned_off(monkeypatch: pytest.MonkeyPatch):
    entered: list[Model] = []

    @contextmanager
    def watched(model: Model) -> Iterator[None]:
        entered.append(model)
        yield

    for module in ("zoo.inference.predict", "zoo.models.generation.generate"):
        monkeypatch.setattr(f"{module}.fast_generation", watched)
    gpt = loaded("gpt2-nano", "causal_lm")
    fast, slow = (predict(gpt, ["the"], None, replace(SETTINGS, fast=on)) for on in (True, False))
    assert fast == slow and len(entered) == 2
    predict(loaded("bert-nano", "classification"), ["the"], None, SETTINGS)  # which writes nothing
    assert len(entered) == 2


def test_texts_of_similar_length_share_a_pass_and_the_longest_come_first(monkeypatch: pytest.MonkeyPatch):
    model, passes = loaded("bert-nano", "classification"), list[list[str]]()
    kind = predictors["classification"]
    ask = kind.predict
    monkeypatch.setattr(kind, "predict", lambda *how: passes.append(list(how[2].texts)) or ask(*how))
    texts = ["cat", "the red cat", "dog", "the blue dog", "a"]
    assert [found.input for found in predict(model, texts, None, SETTINGS, batch=2)] == texts
    assert passes == [["the blue dog", "the red cat"], ["cat", "dog"], ["a"]]
    assert len(predict(model, texts, None, SETTINGS, batch=sys.maxsize)) == 5


def test_a_run_records_which_heads_were_never_trained(tmp_path: Path):
    weights: dict[str, Any] = {"weights": {"a": torch.zeros(1)}}
    for name, state in {"imported": {"step": 0, "untrained": ["masked_lm"]}, "trained": {"step": 0}}.items():
        with create_run(tmp_path / name, RunFiles({})) as run:
            run.save(0, weights, state)
    assert open_run(tmp_path / "imported").checkpoint.untrained == ("masked_lm",)
    assert open_run(tmp_path / "trained").checkpoint.untrained == ()


def test_an_objective_without_a_predictor_is_named():
    bert = loaded("bert-nano", "masked_lm")
    bert.mixture.members = {"something": objectives.build("masked_lm")}
    with pytest.raises(ValueError, match="no predictor is registered for the objective something"):
        predict(bert, ["a [MASK]"], None, SETTINGS)


def test_equal_lines_are_sampled_differently_in_whichever_pass_they_are():
    model = loaded("gpt2-nano", "causal_lm")
    settings = GenerateSettings(max_new_tokens=8, temperature=1.0)
    outputs = [found.output for found in predict(model, ["the red"] * (2 * BATCH), None, settings)]
    assert len(set(outputs)) > BATCH and outputs[:BATCH] != outputs[BATCH:]
    assert outputs == [found.output for found in predict(model, ["the red"] * (2 * BATCH), None, settings)]


def test_the_first_text_is_sampled_with_the_draws_of_number_0():
    model = loaded("gpt2-nano", "causal_lm")
    settings = GenerateSettings(max_new_tokens=8, temperature=1.0)
    prompt = model.tokenizer.encode_prompt("the red")
    (new,) = generate(model.model, [prompt], settings, model.tokenizer.roles.end, numbers=[0])
    (answer,) = predict(model, ["the red"], None, settings)
    assert answer.output == model.tokenizer.decode([*prompt, *new.tokens])


def test_the_answer_to_a_prompt_stands_without_the_prompt_where_that_was_learned():
    (whole,) = predict(loaded("gpt2-nano", "causal_lm", "byte_bpe"), ["the red"], None, SETTINGS)
    columns = {"prompt": "q", "text": "a"}
    (answer,) = predict(loaded("gpt2-nano", "causal_lm", "byte_bpe", columns), ["the red"], None, SETTINGS)
    assert whole.output.startswith("the red") and whole.output.endswith(answer.output)
    assert answer.output and not answer.output.startswith("the red")
    asked = '{"messages": [{"role": "user", "content": "the"}]}'  # a text like any other here
    (answer,) = predict(loaded("gpt2-nano", "causal_lm", "byte_bpe", columns), [asked], None, SETTINGS)
    assert answer.input == asked


def test_unfinished_texts_are_told_once_however_many_passes_write_them(caplog: pytest.LogCaptureFixture):
    model, settings = loaded("gpt2-nano", "causal_lm"), GenerateSettings(max_new_tokens=100)
    with caplog.at_level("INFO", "zoo"):
        predict(model, ["the red cat"] * 5, None, settings, batch=2)
        predict(model, ["the"], None, GenerateSettings(max_new_tokens=3))
    assert caplog.messages == ["5 of 5 texts end at the model's max_length (64 tokens), unfinished"]


def test_a_translator_reads_special_tokens_that_a_text_spells_only_where_its_tokenizer_has_sentinels():
    model, predictor = loaded("t5-nano", "translation"), predictors.build("translation")
    end = model.tokenizer.role_tokens["end"]
    (plain,) = predictor.encode(model, [f"the red cat {end}"])
    assert model.tokenizer.roles.end not in plain
    model.tokenizer.add_sentinels(2)
    gap, ended = predictor.encode(model, ["the <extra_id_1> cat", f"the red cat {end}"])
    assert model.tokenizer.roles.sentinels[1] in gap and model.tokenizer.roles.end in ended
