"""Encoders with ModernBERT's choices, and transformers' ModernBERT."""

import json
from pathlib import Path
from typing import Any

import pytest
from rotary_models import draw_encoder
from safetensors.torch import load_file
from strangers import Stranger, change

import zoo
from zoo.hub.targets.choose import obstacles
from zoo.hub.targets.declare.flat_settings import GLOBAL
from zoo.hub.targets.declare.registry import targets
from zoo.hub.targets.modernbert import older_layers
from zoo.models.settings import load_settings

pytestmark = pytest.mark.usefixtures("quick")

LOCAL = {"encoder.attention.window": [None, 4, 4]}


@pytest.mark.parametrize("seed", range(12))
def test_random_models_give_their_logits(build: Any, export: Any, seed: int):
    report = export(build("bert-modern", draw_encoder(seed), "wordpiece"))
    assert report.target == "modernbert" and report.check.differences["float64"] < 1e-11


@pytest.mark.parametrize(
    ("heads", "wanted"),
    [(["masked_lm"], "ModernBertForMaskedLM"), (["classification"], "ModernBertForSequenceClassification")],
)
def test_both_classes_are_found(build: Any, export: Any, heads: list[str], wanted: str):
    report = export(build("bert-modern", LOCAL | {"heads": heads}, "wordpiece"))
    assert report.class_name == wanted
    assert report.check.left == (heads == ["masked_lm"])


def test_the_first_layer_has_no_norm_of_its_own(build: Any, export: Any):
    names = load_file(export(build("bert-modern", LOCAL)).folder / "model.safetensors")
    assert "model.layers.1.attn_norm.weight" in names and "model.layers.0.attn_norm.weight" not in names


@pytest.mark.parametrize(("layers", "every"), [([None], 1), ([None, 4], 2), ([None, 4, 4], 3), ([None, None, 4], None)])
def test_windows_and_bases_are_written_for_both_versions(build: Any, export: Any, layers: list[Any], every: int | None):
    bases = [7000.0 if window is None else 70.0 for window in layers]
    report = export(build("bert-modern", {"encoder.attention.window": layers, "encoder.position.base": bases}))
    config = json.loads((report.folder / "config.json").read_text())
    kinds = ["full_attention" if layers[i % len(layers)] is None else "sliding_attention" for i in range(3)]
    assert config["layer_types"] == kinds and config["global_attn_every_n_layers"] == every
    assert config["rope_parameters"]["full_attention"]["rope_theta"] == config["global_rope_theta"] == 7000.0
    if 4 in layers:  # a window of 4 sees distances up to 3, which is half of their 6
        assert config["local_attention"] == 6
        assert config["rope_parameters"]["sliding_attention"]["rope_theta"] == config["local_rope_theta"] == 70.0


IN_THE_WAY = [
    ({"encoder.first_norm": True}, "encoder.first_norm is true", "false"),
    ({"encoder.norm": "rmsnorm"}, "encoder.norm is rmsnorm", "layernorm"),
    ({"embeddings.norm": None}, "embeddings.norm is null", "layernorm"),
    ({"embeddings.norm.bias": True}, "embeddings.norm.bias is true", "false (as encoder.norm.bias)"),
    ({"embeddings.segments": 2}, "embeddings.segments is 2", "0"),
    ({"encoder.attention.d_key": 16}, "encoder.attention.d_key is 16", "64 (d_model / n_heads)"),
    (
        {"encoder.attention.window": [None, 3, 5]},
        "encoder.attention.window in local layers differ (3, 5)",
        "one value for all",
    ),
    (
        {"encoder.position.base": [60.0, 50.0]},
        "encoder.position.base in global layers differ (60, 50)",
        "one value for all",
    ),
    ({"heads.masked_lm.norm.eps": 0.1}, "heads.masked_lm.norm.eps is 0.1", "1e-05 (as encoder.norm.eps)"),
    ({"heads": ["classification"], "pooler.norm": None}, "pooler.norm is null", "layernorm"),
    ({"heads": ["classification"], "pooler.activation": "tanh"}, "pooler.activation is tanh", None),
]


def test_in_an_older_config_every_nth_layer_sees_all_and_the_first_one_does():
    older = {"global_attn_every_n_layers": 3, "num_hidden_layers": 7}
    for said in (older, {**older, "global_attn_every_n_layers": None}):  # 3 is the default
        assert [kind == GLOBAL for kind in older_layers(said.get)] == [True, False, False, True, False, False, True]


@pytest.mark.parametrize(("sets", "wrong", "right"), IN_THE_WAY)
def test_the_choice_in_the_way_is_named(sets: dict[str, Any], wrong: str, right: str | None):
    pairs = [(tuple(path.split(".")), value) for path, value in sets.items()]
    found = obstacles(load_settings("bert-modern", pairs))["modernbert"]
    has = right or "gelu or gelu_tanh or relu or silu or relu_squared"
    assert found == f"{wrong}; {targets['modernbert'].family} has {has}"


def test_rotary_positions_of_another_head_size_are_refused(tmp_path: Path):
    sizes = {"vocab_size": 31, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2}
    Stranger("ModernBertForMaskedLM", {**sizes, "intermediate_size": 7, "pad_token_id": 0}, {}).save(tmp_path)
    zoo.load(change(tmp_path, head_dim=4))
    with pytest.raises(ValueError, match="head_dim is 3; zoo imports transformers' ModernBERT only with null or 4"):
        zoo.load(change(tmp_path, head_dim=3))
