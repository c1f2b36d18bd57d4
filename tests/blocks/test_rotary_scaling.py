"""Rotary positions beyond those of training: transformers' rates by their names."""

from typing import Any

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from zoo.blocks.position import positions

TRAINED, LONG, WIDTH = 24, 61, 20
YARN = {"beta_fast": 4.0, "beta_slow": 0.5}
SCALINGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"name": "linear", "factor": 3}, {}),
    ({"name": "dynamic", "factor": 2.5, "trained_length": TRAINED}, {}),
    ({"name": "yarn", "factor": 3, "trained_length": TRAINED}, {}),
    ({"name": "yarn", "factor": 3, "trained_length": TRAINED, **YARN, "truncate": False}, {**YARN, "truncate": False}),
    ({"name": "yarn", "factor": 3, "trained_length": TRAINED, "attention_factor": 0.7}, {"attention_factor": 0.7}),
    ({"name": "llama3", "factor": 8, "trained_length": TRAINED}, {"low_freq_factor": 1.0, "high_freq_factor": 4.0}),
]


@pytest.mark.parametrize("reach", [TRAINED - 5, LONG])
@pytest.mark.parametrize(("ours", "theirs"), SCALINGS, ids=lambda one: str(one.get("name", "")))
def test_scaled_positions_turn_as_transformers_turns_them(ours: dict[str, Any], theirs: dict[str, Any], reach: int):
    scaled = {"rope_type": ours["name"], "rope_theta": 300.0, "factor": ours["factor"], **theirs}
    if ours["name"] in ("yarn", "llama3"):
        scaled["original_max_position_embeddings"] = TRAINED
    config = LlamaConfig(
        head_dim=WIDTH,
        hidden_size=WIDTH,
        num_attention_heads=1,
        max_position_embeddings=TRAINED,
        rope_parameters=scaled,
    )
    queries, at = torch.randn(2, 3, reach, WIDTH), torch.arange(reach).expand(2, -1)
    cos, sin = LlamaRotaryEmbedding(config)(queries, at)
    wanted = apply_rotary_pos_emb(queries, queries, cos, sin)[0]
    rotary = positions.build({"name": "rotary", "base": 300.0, "scaling": ours}, WIDTH, 3, WIDTH, LONG, True)
    torch.testing.assert_close(rotary.rotate(queries, rotary.turns(at, queries.dtype)), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("scaling", "said"),
    [
        ({"name": "linear", "factor": 0.5}, "factor must be at least 1, got 0.5"),
        ({"name": "yarn", "factor": 2, "trained_length": 8, "beta_slow": 40.0}, "0 < beta_slow <= beta_fast"),
        ({"name": "llama3", "factor": 2, "trained_length": 8, "low": 5.0}, "0 < low < high, got 5.0 and 4.0"),
        ({"name": "dynamic", "factor": 2}, "needs the option 'trained_length'"),
        ({"name": "ntk", "factor": 2}, "unknown rotary_scaling 'ntk'; allowed: linear, dynamic, yarn, llama3"),
    ],
)
def test_a_scaling_that_means_nothing_is_refused(scaling: dict[str, Any], said: str):
    with pytest.raises(ValueError, match=said):
        positions.build({"name": "rotary", "scaling": scaling}, WIDTH, 3, WIDTH, LONG, True)
