"""Decoders with normalized queries and keys, and transformers' Qwen3."""

import json
from typing import Any

import pytest
from rotary_models import draw_decoder

from zoo.hub.targets.choose import obstacles
from zoo.hub.targets.declare.registry import targets
from zoo.models.settings import load_settings

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.parametrize("seed", range(8))
def test_random_models_give_their_logits(build: Any, export: Any, seed: int):
    sets = draw_decoder(seed, even=False)
    window = [None, [None, 3], 5, [4, 4, None]][seed % 4]
    norm = {"name": "rmsnorm", "eps": sets["decoder.norm.eps"]}
    sets["decoder.attention"] |= {"qk_norm": norm, "bias": seed % 2 == 0, "window": window}
    report = export(build("gpt-modern", sets, "byte_bpe"))
    assert report.target == "qwen3" and report.check.differences["float64"] < 1e-11


QK_NORM = {"decoder.attention.n_kv_heads": 5, "decoder.attention.qk_norm": True}


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (None, {"layer_types": ["full_attention"] * 3, "use_sliding_window": False, "max_window_layers": 3}),
        ([None, 4, 4], {"sliding_window": 4, "use_sliding_window": True, "max_window_layers": 1}),
    ],
)
def test_the_kinds_of_layers_are_written(build: Any, export: Any, window: Any, expected: dict[str, Any]):
    report = export(build("gpt-modern", QK_NORM | {"decoder.attention.window": window}))
    config = json.loads((report.folder / "config.json").read_text())
    assert {key: config[key] for key in expected} == expected


IN_THE_WAY = [
    ({}, "decoder.attention.qk_norm is false", "rmsnorm"),
    ({"decoder.attention.qk_norm": "layernorm"}, "decoder.attention.qk_norm is layernorm", "rmsnorm"),
    (
        {"decoder.attention.qk_norm": {"name": "rmsnorm", "eps": 0.1}},
        "decoder.attention.qk_norm.eps is 0.1",
        "1e-06 (as decoder.norm.eps)",
    ),
    (
        {"decoder.attention.qk_norm": True, "decoder.attention.window": [None, 5, 7]},
        "decoder.attention.window in local layers differ (5, 7)",
        "one value for all",
    ),
]


@pytest.mark.parametrize(("sets", "wrong", "right"), IN_THE_WAY)
def test_the_choice_in_the_way_is_named(sets: dict[str, Any], wrong: str, right: str):
    pairs = [(tuple(path.split(".")), value) for path, value in sets.items()]
    found = obstacles(load_settings("gpt-modern", pairs))["qwen3"]
    assert found == f"{wrong}; {targets['qwen3'].family} has {right}"
