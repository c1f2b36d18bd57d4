"""Decoders with Llama's choices, and transformers' Llama."""

import json
from pathlib import Path
from typing import Any

import pytest
from rotary_models import draw_decoder
from strangers import Stranger, change

import zoo
from zoo.hub.targets.choose import obstacles
from zoo.hub.targets.declare.registry import targets
from zoo.models.settings import load_settings

LLAMA = targets["llama"].family
ATTENTION = "decoder.attention"


def test_a_decoder_with_llamas_choices_is_exported_as_one(build: Any, export: Any):
    report = export(build("gpt-modern", {"decoder.attention.n_kv_heads": 1, "heads.language.tied": False}))
    assert (report.target, report.class_name) == ("llama", "LlamaForCausalLM")
    assert report.check.differences["float32"] < 1e-4 and report.check.differences["float64"] < 1e-12
    assert report.check.left and report.check.generated == 2


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("seed", range(8))
def test_random_models_give_their_logits(build: Any, export: Any, seed: int):
    sets = draw_decoder(seed, even=True)
    sets |= {"decoder.feed_forward.bias": seed % 2 == 0}
    sets["decoder.attention"]["bias"] = seed % 3 == 0
    report = export(build("gpt-modern", sets, "byte_bpe"))
    assert report.target == "llama" and report.check.differences["float64"] < 1e-11


@pytest.mark.usefixtures("quick")
def test_both_spellings_of_the_base_are_written(build: Any, export: Any):
    sets = {"decoder.attention.n_kv_heads": 5, "decoder.position.base": 500.0}
    config = json.loads((export(build("gpt-modern", sets)).folder / "config.json").read_text())
    assert config["rope_theta"] == 500.0
    assert config["rope_parameters"] == {"rope_theta": 500.0, "rope_type": "default"}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("scaling", "written"),
    [
        ({"name": "linear", "factor": 3}, {"rope_type": "linear", "factor": 3.0}),
        ({"name": "dynamic", "factor": 3, "trained_length": 8}, {"rope_type": "dynamic", "factor": 3.0}),
        (
            {"name": "yarn", "factor": 4, "trained_length": 16, "attention_factor": 1.5},
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "attention_factor": 1.5}
            | {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": True},
        ),
        (
            {"name": "llama3", "factor": 4, "trained_length": 16, "high": 2},
            {"rope_type": "llama3", "factor": 4.0, "original_max_position_embeddings": 16}
            | {"low_freq_factor": 1.0, "high_freq_factor": 2.0},
        ),
    ],
)
def test_scaled_positions_are_exported_by_name(
    scaling: dict[str, Any], written: dict[str, Any], build: Any, export: Any
):
    sets = {"decoder.attention.n_kv_heads": 1, "decoder.position.base": 300.0, "decoder.position.scaling": scaling}
    report = export(build("gpt-modern", {**sets, "max_length": 64}))
    config = json.loads((report.folder / "config.json").read_text())
    assert report.target == "llama" and report.check.differences["float64"] < 1e-11
    assert config["rope_parameters"] == {"rope_theta": 300.0, **written} and config["rope_scaling"] == written
    assert config["max_position_embeddings"] == (8 if scaling["name"] == "dynamic" else 64)


IN_THE_WAY = [
    ({"decoder.norm": "layernorm"}, "decoder.norm is layernorm", "rmsnorm"),
    ({"decoder.block": "sandwich"}, "decoder.block is sandwich", "pre_norm"),
    ({"decoder.final_norm": False}, "decoder.final_norm is false", "null or true"),
    ({"decoder.position": "alibi"}, "decoder.position is alibi", "rotary"),
    ({"decoder.position.base": [50.0, 60.0]}, "decoder.position.base differ (50, 60)", "one value for all"),
    ({"decoder.feed_forward": "mlp"}, "decoder.feed_forward is mlp", "gated"),
    ({f"{ATTENTION}.window": [None, 7]}, f"{ATTENTION}.window is 7", "null"),
    ({f"{ATTENTION}.qk_norm": True}, f"{ATTENTION}.qk_norm is rmsnorm", "false"),
    ({f"{ATTENTION}.sinks": True}, f"{ATTENTION}.sinks is true", "false"),
    ({f"{ATTENTION}.d_value": 4}, f"{ATTENTION}.d_value is 4", f"64 (as {ATTENTION}.d_key)"),
    ({f"{ATTENTION}.n_kv_heads": [2, 4]}, f"{ATTENTION}.n_kv_heads differ (2, 4)", "one value for all"),
    ({"embeddings.scale": True}, "embeddings.scale is true", "false"),
    ({"heads.language.bias": True}, "heads.language.bias is true", "false"),
]


@pytest.mark.parametrize(("sets", "wrong", "right"), IN_THE_WAY)
def test_the_choice_in_the_way_is_named(sets: dict[str, Any], wrong: str, right: str):
    pairs = [(tuple(path.split(".")), value) for path, value in sets.items()]
    assert obstacles(load_settings("gpt-modern", pairs))["llama"] == f"{wrong}; {LLAMA} has {right}"


def test_heads_that_do_not_divide_the_width_are_in_the_way():
    sets = [(("d_model",), 10), (("n_heads",), 4), (("attention", "d_key"), 6), (("attention", "d_value"), 6)]
    found = obstacles(load_settings("gpt-modern", sets))
    assert found["llama"] == f"decoder.n_heads is 4; {LLAMA} has 1 or 2 or 5 or 10 (divisors of d_model)"
    assert "mistral" not in found


@pytest.mark.parametrize("family", ["Llama", "Mistral", "Qwen3"])
def test_a_tagger_without_a_bias_is_refused(family: str, tmp_path: Path):
    sizes = {"vocab_size": 31, "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 4}
    sizes |= {"num_hidden_layers": 1, "intermediate_size": 7, "max_position_embeddings": 12}
    Stranger(f"{family}ForTokenClassification", sizes, {}).save(tmp_path)
    zoo.load(change(tmp_path, token_classification_bias=True))
    with pytest.raises(ValueError, match="token_classification_bias is false; zoo imports .* only with true"):
        zoo.load(change(tmp_path, token_classification_bias=False))
