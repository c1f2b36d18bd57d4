"""Claims about what `attend` shows: the model's own weights, under the tokens that stand at their positions."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from looking import loaded, picture

from zoo.inference.attend import AttentionMaps, attend
from zoo.inference.loaded import Loaded
from zoo.models.generation.settings import GenerateSettings

SETTINGS = GenerateSettings(max_new_tokens=5)
PAIRS = {"text": "a", "pair": "b", "label": "c"}


def look(given: Loaded, text: str | None, target: str | None = None, image: str | None = None) -> AttentionMaps:
    return attend(given, text, target, image, SETTINGS)


def kinds(found: AttentionMaps) -> list[str]:
    return [one.kind for one in found.maps]


@pytest.mark.parametrize(
    ("name", "objective", "expected"),
    [
        ("bert-nano", "masked_lm", ["encoder.self"]),
        ("gpt2-nano", "causal_lm", ["decoder.self"]),
        ("transformer-nano", "translation", ["encoder.self", "decoder.self", "decoder.cross"]),
        ("rnn-attention-nano", "translation", ["decoder.cross"]),
        ("t5-nano", "translation", ["encoder.self", "decoder.self", "decoder.cross"]),
    ],
)
def test_every_kind_of_model_that_reads_texts_shows_its_weights(name: str, objective: str, expected: list[str]):
    found = look(loaded(name, objective), "the red cat")
    assert kinds(found) == expected
    for one in found.maps:
        for weights in one.layers.values():
            assert weights.shape[1:] == (len(one.queries.labels), len(one.keys.labels))
            np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)


def test_the_weights_are_those_of_the_model_for_that_source_and_target():
    given = loaded("transformer-nano", "translation")
    found = look(given, "the red cat", "a dog")
    roles, (source, target) = given.tokenizer.roles, given.tokenizer.encode(["the red cat", "a dog"])
    rows = [torch.tensor([ids]) for ids in ([roles.start, *target], [*source, roles.end])]
    with torch.no_grad():
        weights = given.model(*rows, weights=True).weights
    for one in found.maps:
        for number, layer in one.layers.items():
            np.testing.assert_array_equal(layer, weights[one.kind][number - 1][0].numpy())


def test_a_decoder_reads_what_it_has_written_and_its_alignment_is_that_of_the_next_word():
    found = look(loaded("rnn-attention-nano", "translation"), "the red cat", "a blue dog").maps[0]
    assert found.queries.labels == ["a", "blue", "dog", "[END]"] and found.keys.labels[-1] == "[END]"
    own = look(loaded("transformer-nano", "translation"), "the red cat", "a blue dog").maps[1]
    assert own.queries == own.keys and own.queries.labels[0] == "[CLS]"
    assert own.queries.labels[1:] == found.queries.labels[:-1]


def test_without_a_target_the_model_writes_one():
    given = loaded("transformer-nano", "translation")
    found = look(given, "the red cat")
    assert list(found.texts) == ["source", "written by the model"]
    assert look(given, "the red cat", "a dog").texts == {"source": "the red cat", "target": "a dog"}
    assert look(loaded("bert-nano", "masked_lm"), "red [MASK] cat").texts == {"text": "red [MASK] cat"}
    assert len(found.maps[2].queries.labels) <= SETTINGS.max_new_tokens + 1


def test_what_a_model_writes_to_its_last_position_can_be_shown():
    given = loaded("transformer-nano", "translation", max_length=4)
    with torch.no_grad():
        given.model.heads["language"].bias = torch.nn.Parameter(torch.zeros(300))
    assert len(look(given, "a dog").maps[1].queries.labels) <= 4


def test_a_text_stands_in_the_template_of_the_training():
    assert look(loaded("bert-nano", "masked_lm"), "red [MASK] cat").maps[0].keys.labels == [
        *("[CLS]", "red", "[MASK]", "cat", "[SEP]")
    ]
    assert "[MASK]" not in look(loaded("bert-nano", "classification"), "red [MASK] cat").maps[0].keys.labels
    assert look(loaded("gpt2-nano", "causal_lm"), "red cat").maps[0].keys.labels == ["[CLS]", "red", "cat"]
    labels = look(loaded("gpt2-nano", "classification"), "red cat").maps[0].keys.labels
    assert labels == ["[CLS]", "red", "cat", "[EXTRACT]"]


def test_a_target_is_the_second_text_of_a_model_of_pairs():
    found = look(loaded("bert-nano", "classification", columns=PAIRS), "red cat", "the dog")
    assert found.maps[0].keys.labels == ["[CLS]", "red", "cat", "[SEP]", "the", "dog", "[SEP]"]


@pytest.mark.parametrize(
    ("name", "end", "last"), [("bert-nano", "[SEP]", "[SEP]"), ("gpt2-nano", "[SEP]", "[EXTRACT]")]
)
def test_each_choice_stands_behind_its_context_and_sees_no_other(name: str, end: str, last: str):
    seen = look(loaded(name, "choice"), "red cat", "the dog\nruns")
    assert seen.texts == {"text": "red cat", "choices": "the dog\nruns"}
    (found,) = seen.maps
    documents = ["[CLS]", "red", "cat", end, "the", "dog", last], ["[CLS]", "red", "cat", end, "runs", last]
    assert found.keys.labels == [*documents[0], *documents[1]]
    assert all(not layer[:, :7, 7:].any() and not layer[:, 7:, :7].any() for layer in found.layers.values())


def test_similarity_shows_both_orders():
    (found,) = look(loaded("gpt2-nano", "similarity"), "red cat", "dog").maps
    first = ["[CLS]", "red", "cat", "[SEP]", "dog", "[EXTRACT]"]
    assert found.keys.labels == [*first, "[CLS]", "dog", "[SEP]", "red", "cat", "[EXTRACT]"]


def test_what_was_asked_in_a_conversation_stands_as_it_did_in_training():
    given = loaded("gpt2-nano", "causal_lm", columns={"messages": "m"})
    assert look(given, " red cat ").maps[0].keys.labels == ["[CLS]", "red", "cat", "[SEP]"]


def test_missing_spans_are_read_and_written_as_such():
    given = loaded("t5-nano", "span_corruption")
    given.tokenizer.add_sentinels(2)
    found = look(given, "the <extra_id_0> cat", "<extra_id_0> red <extra_id_1>").maps
    assert found[0].keys.labels == ["the", "<extra_id_0>", "cat", "[END]"]
    assert found[2].queries.labels == ["<extra_id_0>", "red", "<extra_id_1>", "[END]"]


def test_layers_that_do_not_attend_are_left_out():
    given = loaded("gpt2-nano", "causal_lm", decoder__mixer=["convolution", "attention"])
    assert list(look(given, "the red cat").maps[0].layers) == [2]


def test_captions_look_at_a_grid(tmp_path: Path):
    given = loaded("captioner-rnn-nano", "captioning")
    found = look(given, "a red cat", image=picture(tmp_path))
    (cross,) = found.maps
    assert (
        cross.kind == "decoder.cross"
        and cross.keys.grid == (4, 4)
        and cross.queries.labels == ["a", "red", "cat", "[END]"]
    )
    assert cross.layers[1].shape == (1, len(cross.queries.labels), 16)
    assert found.picture is not None and found.picture.shape[0] == 3
    own = look(given, picture(tmp_path))
    assert list(own.texts) == ["picture", "written by the model"]


def test_grids_of_different_sizes_are_maps_of_their_own(tmp_path: Path):
    stages = [
        {"name": "convolution", "width": 8, "stride": 2},
        "attention",
        {"name": "residual", "width": 8, "stride": 2},
    ]
    given = loaded("cnn-attention-nano", "classification", encoder__stages=[*stages, "attention", "attention"])
    found = look(given, None, image=picture(tmp_path))
    with pytest.raises(ValueError, match="--target: this model writes no text; leave it out"):
        look(given, None, "a dog", picture(tmp_path))
    assert [(one.keys.grid, list(one.layers)) for one in found.maps] == [((8, 8), [2]), ((4, 4), [4, 5])]


@pytest.mark.parametrize(
    ("name", "objective", "asked", "message"),
    [
        (
            "rnn-seq2seq-nano",
            "translation",
            ("a",),
            "no attention to draw: none of its layers .* attends",
        ),
        ("bert-nano", "masked_lm", (None,), "TEXT: missing; this model reads a text"),
        ("bert-nano", "masked_lm", ("a", None, "b.png"), "--image: this model reads texts, not images; leave it out"),
        (
            "gpt2-nano",
            "causal_lm",
            ("a", "b"),
            "--target: .* trained for causal_lm, which reads one text; leave it out",
        ),
        (
            "gpt2-nano",
            "causal_lm",
            ("red " * 99,),
            "TEXT has 100 tokens, special tokens included: the model reads at most",
        ),
        ("bert-nano", "choice", ("a",), "--target: this checkpoint chooses .* one per line; got 0, expected 2 to 64"),
        ("bert-nano", "span", ("a",), "--target: .* TEXT is the question; give the context to answer it from"),
        ("gpt2-nano", "similarity", ("a",), "--target: similarity compares two texts: give the second one"),
        ("bert-nano", "masked_lm", ("red " * 99,), "the text is .* tokens too long: the model reads at most"),
        (
            "transformer-nano",
            "translation",
            ("red " * 99,),
            "the text has 100 tokens, special tokens included: the model reads at most",
        ),
        ("transformer-nano", "translation", ("a", "red " * 99), "the target has 100 tokens"),
        ("captioner-rnn-nano", "captioning", (None,), "--image: missing; this model reads an image"),
        ("captioner-rnn-nano", "captioning", (None, None, "none.png"), "none.png: no such file"),
        ("captioner-rnn-nano", "captioning", ("a", "b", "c.png"), "--target: with --image, TEXT is the target"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_the_reason(name: str, objective: str, asked: Any, message: str):
    sets = {"max_length": 64} if name != "rnn-seq2seq-nano" else {}
    with pytest.raises(ValueError, match=message):
        look(loaded(name, objective, **sets), *asked)


def test_a_model_that_only_convolves_is_refused():
    with pytest.raises(ValueError, match=r"none of its layers \(\d of decoder\) attends"):
        look(loaded("gpt2-nano", "causal_lm", decoder__mixer="convolution"), "the red cat")


def test_attention_weights_that_are_not_finite_are_not_shown():
    given = loaded("bert-nano", "masked_lm")
    with torch.no_grad():
        for parameter in given.model.stream.parameters():
            parameter.fill_(3e38)
    with pytest.raises(RuntimeError, match=r"^attention weights are not finite \(NaN or infinite\): the weights are"):
        look(given, "the red cat")
