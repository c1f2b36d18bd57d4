"""Which target a model fits, and what is in the way of the others."""

from typing import Any

import pytest
from transformers import AutoConfig

from zoo import config
from zoo.hub.targets.choose import fitting_targets, obstacles
from zoo.hub.targets.declare.registry import targets
from zoo.models.settings import load_settings

BERT, GPT2 = targets["bert"].family, targets["gpt2"].family


def settings_of(name: str, sets: dict[str, Any]) -> Any:
    return load_settings(name, [(tuple(path.split(".")), value) for path, value in sets.items()])


def test_a_decoder_with_llamas_choices_is_llama_before_mistral_which_it_also_fits():
    assert fitting_targets(load_settings("gpt-modern")) == ["llama", "mistral"]


@pytest.mark.parametrize(
    ("model", "heads", "name"),
    [
        ("gpt2-nano", ["language", "choice"], "GPT2DoubleHeadsModel"),
        ("gpt2-nano", ["choice", "language"], "GPT2DoubleHeadsModel"),
        ("gpt2-nano", ["language"], "GPT2LMHeadModel"),
        ("gpt2-nano", ["classification", "language"], "GPT2ForSequenceClassification"),
        ("bert-nano", ["next_sentence", "masked_lm"], "BertForPreTraining"),
    ],
)
def test_the_first_head_decides_the_class_then_how_many_it_carries(model: str, heads: list[str], name: str):
    settings = settings_of(model, {"heads": heads})
    native = targets[fitting_targets(settings)[0]].native_class(settings)
    assert native is not None and native.name == name


def test_a_model_that_no_class_has_fits_none():
    assert fitting_targets(load_settings("transformer-modern")) == []


def test_every_shipped_model_has_an_answer_for_every_target():
    for name in config.names("configs"):
        settings = load_settings(name)
        assert set(fitting_targets(settings)) | set(obstacles(settings)) == set(targets)


ATTENTION, MLP = "encoder.attention", "encoder.feed_forward"
IN_THE_WAY = [
    ("bert-nano", {"encoder.norm": "rmsnorm"}, "encoder.norm is rmsnorm", "layernorm"),
    ("bert-nano", {"encoder.norm.bias": False}, "encoder.norm.bias is false", "true"),
    ("bert-nano", {"encoder.norm.eps": 1e-6}, "embeddings.norm.eps is 1e-12", "1e-06 (as encoder.norm.eps)"),
    ("bert-nano", {"encoder.block": "sandwich"}, "encoder.block is sandwich", "post_norm"),
    ("bert-nano", {"encoder.final_norm": True}, "encoder.final_norm is true", "null or false"),
    ("bert-nano", {"encoder.first_norm": False}, "encoder.first_norm is false", "true"),
    ("bert-nano", {"encoder.position": "rotary"}, "encoder.position is rotary", "learned"),
    ("bert-nano", {"encoder.position": "sinusoidal"}, "encoder.position is sinusoidal", "learned"),
    ("bert-nano", {f"{ATTENTION}.window": 7}, f"{ATTENTION}.window is 7", "null"),
    ("bert-nano", {f"{ATTENTION}.window": [None, 7]}, f"{ATTENTION}.window is 7", "null"),
    ("bert-nano", {f"{ATTENTION}.qk_norm": True}, f"{ATTENTION}.qk_norm is rmsnorm", "false"),
    ("bert-nano", {f"{ATTENTION}.qk_norm": "layernorm"}, f"{ATTENTION}.qk_norm is layernorm", "false"),
    ("bert-nano", {f"{ATTENTION}.sinks": True}, f"{ATTENTION}.sinks is true", "false"),
    ("bert-nano", {f"{ATTENTION}.bias": False}, f"{ATTENTION}.bias is false", "true"),
    ("bert-nano", {f"{ATTENTION}.d_key": 5}, f"{ATTENTION}.d_key is 5", "8 (d_model / n_heads)"),
    ("bert-nano", {f"{ATTENTION}.d_value": 5}, f"{ATTENTION}.d_value is 5", "8 (d_model / n_heads)"),
    ("bert-nano", {ATTENTION: {"name": "grouped", "n_kv_heads": 2}}, f"{ATTENTION} is grouped", "full"),
    ("bert-nano", {MLP: "gated"}, f"{MLP} is gated", "mlp"),
    ("bert-nano", {f"{MLP}.bias": False}, f"{MLP}.bias is false", "true"),
    ("bert-nano", {"encoder.norm.eps": [1e-6, 1e-12]}, "encoder.norm.eps differ (1e-06, 1e-12)", "one value for all"),
    (
        "bert-nano",
        {f"{MLP}.activation": ["gelu", "relu"]},
        f"{MLP}.activation differ (gelu, relu)",
        "one value for all",
    ),
    ("bert-nano", {"encoder.n_heads": [2, 4]}, "encoder.n_heads differ (2, 4)", "one value for all"),
    ("bert-nano", {"encoder.d_ff": [7, 5]}, "encoder.d_ff differ (7, 5)", "one value for all"),
    ("gpt2-nano", {"decoder.norm": ["layernorm", "rmsnorm"]}, "decoder.norm is rmsnorm", "layernorm"),
    ("bert-nano", {"embeddings.width": 16}, "embeddings.width is 16", "null or 32 (as encoder.d_model)"),
    ("bert-nano", {"embeddings.segments": 0}, "embeddings.segments is 0", "1 (or more)"),
    ("bert-nano", {"embeddings.norm": None}, "embeddings.norm is null", "layernorm"),
    ("bert-nano", {"embeddings.scale": True}, "embeddings.scale is true", "false"),
    ("bert-nano", {"heads.masked_lm.norm.eps": 0.1}, "heads.masked_lm.norm.eps is 0.1", "1e-12 (as encoder.norm.eps)"),
    ("bert-nano", {"heads.masked_lm.bias": False}, "heads.masked_lm.bias is false", "true"),
    ("bert-nano", {f"{MLP}.activation": "relu"}, "heads.masked_lm.activation is gelu", f"relu (as {MLP}.activation)"),
    ("gpt2-nano", {"decoder.norm.bias": [True, False]}, "decoder.norm.bias is false", "true"),
    ("gpt2-nano", {"decoder.final_norm": False}, "decoder.final_norm is false", "null or true"),
    ("gpt2-nano", {"embeddings.norm": "layernorm"}, "embeddings.norm is layernorm", "null"),
    ("gpt2-nano", {"embeddings.segments": 2}, "embeddings.segments is 2", "0"),
    ("gpt2-nano", {"heads.language.bias": True}, "heads.language.bias is true", "false"),
    ("gpt-nano", {"decoder.d_ff": 48}, "decoder.d_ff is 48", "128 (4 d_model)"),
    (
        "gpt-nano",
        {"decoder.feed_forward.activation": "gelu"},
        "decoder.feed_forward.activation is gelu",
        "gelu_tanh or relu or silu",
    ),
    ("transformer-nano", {"decoder.norm.eps": 1e-6}, "decoder.norm.eps is 1e-06", "1e-05"),
    ("transformer-nano", {"encoder.position": "learned"}, "encoder.position is learned", "sinusoidal"),
    (
        "transformer-nano",
        {"decoder.feed_forward.activation": "silu"},
        f"{MLP}.activation and decoder.feed_forward.activation differ (relu, silu)",
        "one value for all",
    ),
    (
        "transformer-nano",
        {"heads.language.tied": False},
        "heads.language.tied is false",
        "true (where the embeddings are shared)",
    ),
]


@pytest.mark.parametrize(("name", "sets", "wrong", "right"), IN_THE_WAY)
def test_one_wrong_choice_is_named_with_what_the_class_has(name: str, sets: dict[str, Any], wrong: str, right: str):
    own = fitting_targets(load_settings(name))[0]
    settings = settings_of(name, sets)
    assert own not in fitting_targets(settings)
    assert obstacles(settings)[own] == f"{wrong}; {targets[own].family} has {right}"


FREE = [
    ("bert-nano", {"encoder.d_ff": 17, "encoder.n_layers": 3, "encoder.attention.d_key": 8, "dropout": 0.0}),
    ("bert-nano", {"encoder.norm.eps": 1e-6, "embeddings.norm.eps": 1e-6, "heads": ["next_sentence"]}),
    ("bert-nano", {"heads.masked_lm.norm.eps": 1e-5, "heads": ["classification"]}),
    (
        "gpt2-nano",
        {"decoder.d_ff": 17, "decoder.dropout": [0.1, 0.2], "decoder.attention.window": [None, None, 4]},
    ),
    (
        "transformer-nano",
        {"encoder.n_heads": 2, "decoder.d_ff": 17, "encoder.max_length": 50, "embeddings.scale": False},
    ),
]


@pytest.mark.parametrize(("name", "sets"), FREE)
def test_sizes_dropout_and_what_no_output_depends_on_are_free(name: str, sets: dict[str, Any]):
    assert fitting_targets(settings_of(name, sets))[0] == fitting_targets(load_settings(name))[0]


def test_a_head_that_no_class_carries_is_named():
    settings = settings_of("gpt2-nano", {"heads": ["masked_lm"]})
    carried = "language or classification or tagging or choice beside language"
    assert obstacles(settings)["gpt2"] == f"the first head is masked_lm; {GPT2} has {carried}"


def test_a_head_that_only_a_class_of_several_carries_is_named_with_the_others():
    said = obstacles(settings_of("gpt2-nano", {"heads": ["choice"]}))
    assert said["gpt2"].startswith("the first head is choice; ") and said["gpt2"].endswith(" or choice beside language")


def test_a_part_too_many_is_named():
    assert obstacles(load_settings("transformer-nano"))["bert"] == (
        f"the model has an encoder and a decoder; {BERT} has an encoder alone"
    )


def default_of(tree: Any, key: str) -> Any:
    """The value in the config of a class, None where it has no such key."""
    for name in key.split("."):
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


@pytest.mark.parametrize("name", targets)
def test_a_key_that_a_config_lacks_means_what_it_means_to_the_class_of_transformers(name: str):
    theirs, target = AutoConfig.for_model(targets[name].model_type).to_dict(), targets[name]
    keys = [*target.keys, *(key for chosen in target.classes for key in chosen.keys)]
    known = {key.theirs: key.default for key in keys if key.default is not None}
    compared = {key: value for key, value in known.items() if default_of(theirs, key) is not None}
    assert compared == {key: default_of(theirs, key) for key in compared} and len(compared) > 5
