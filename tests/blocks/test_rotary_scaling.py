"""Rotary positions beyond those of training: transformers' rates by their names."""

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from zoo.blocks.position import positions
from zoo.blocks.rotary_scaling import plain_rates, scalings

TRAINED, LONG, WIDTH = 24, 61, 20
YARN = {"beta_fast": 4.0, "beta_slow": 0.5}
STEP = {"beta_fast": 2.0, "beta_slow": 2.0, "truncate": False}  # nothing lies between
SCALINGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"name": "linear", "factor": 3}, {}),
    ({"name": "dynamic", "factor": 2.5, "trained_length": TRAINED}, {}),
    ({"name": "yarn", "factor": 3, "trained_length": TRAINED}, {}),
    ({"name": "yarn", "factor": 3, "trained_length": TRAINED, **YARN, "truncate": False}, {**YARN, "truncate": False}),
    ({"name": "yarn", "factor": 3, "trained_length": TRAINED, "attention_factor": 0.7}, {"attention_factor": 0.7}),
    ({"name": "yarn", "factor": 3, "trained_length": TRAINED, **STEP}, STEP),
    (
        {"name": "llama3", "factor": 8, "trained_length": TRAINED, "low": 0.5, "high": 2.0},
        {"low_freq_factor": 0.5, "high_freq_factor": 2.0},
    ),
    ({"name": "llama3", "factor": 8, "trained_length": TRAINED}, {"low_freq_factor": 1.0, "high_freq_factor": 4.0}),
]


@pytest.mark.parametrize("reach", [TRAINED - 5, TRAINED, TRAINED + 1, LONG])
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
    torch.testing.assert_close(
        rotary.rotate(queries, rotary.rotations(at, queries.dtype)), wanted, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("width", [10, 80, 128])
@pytest.mark.parametrize("factor", [1.5, 3.0, 8.0, 40.0])
@pytest.mark.parametrize(("kind", "high"), [("linear", 0.0), ("yarn", 0.0), ("llama3", 4.0), ("llama3", 32.0)])
def test_rates_are_those_of_transformers_to_the_last_bit(kind: str, high: float, factor: float, width: int):
    own = {} if kind == "linear" else {"original_max_position_embeddings": 2048}
    theirs = {"rope_type": kind, "rope_theta": 10000.0, "factor": factor, "low_freq_factor": 1.0, **own}
    config = LlamaConfig(
        head_dim=width, max_position_embeddings=8192, rope_parameters={**theirs, "high_freq_factor": high}
    )
    length = {} if kind == "linear" else {"trained_length": 2048}
    more = {"high": high} if kind == "llama3" else {}
    scaling = scalings.build({"name": kind, "factor": factor, **length, **more}, 10000.0, width)
    wanted = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))[0]
    rates = plain_rates(10000.0, width, torch.device("cpu"))
    assert torch.equal(scaling.scale(rates, torch.zeros(1, 1, dtype=torch.long), torch.float32), wanted)


@pytest.mark.parametrize(
    ("scaling", "said"),
    [
        ({"name": "linear", "factor": 0.5}, "factor must be at least 1, got 0.5"),
        ({"name": "yarn", "factor": 2, "trained_length": 8, "beta_slow": 40.0}, "0 < beta_slow <= beta_fast"),
        ({"name": "llama3", "factor": 2, "trained_length": 8, "low": 5.0}, "0 < low < high, got 5.0 and 4.0"),
        ({"name": "llama3", "factor": 2, "trained_length": 8, "low": 4.0}, "0 < low < high, got 4.0 and 4.0"),
        ({"name": "dynamic", "factor": 2}, "needs the option 'trained_length'"),
        ({"name": "ntk", "factor": 2}, "unknown rotary_scaling 'ntk'; allowed: linear, dynamic, yarn, llama3"),
        (
            {"name": "yarn", "factor": 2.0, "trained_length": 8, "attention_factor": 0.0},
            "attention_factor must be above 0, got 0",
        ),
    ],
)
def test_a_scaling_that_means_nothing_is_refused(scaling: dict[str, Any], said: str):
    with pytest.raises(ValueError, match=said):
        positions.build({"name": "rotary", "scaling": scaling}, WIDTH, 3, WIDTH, LONG, True)


def test_a_base_is_raised_by_a_power_that_one_pair_does_not_have():
    with pytest.raises(ValueError, match="rotary_scaling dynamic needs a d_key above 2, got 2"):
        scalings.build({"name": "dynamic", "factor": 2, "trained_length": TRAINED}, 300.0, 2)
    rates, at = plain_rates(300.0, WIDTH, torch.device("cpu")), torch.arange(LONG)[None]
    assert torch.equal(scalings.build({"name": "linear", "factor": 1}, 300.0, WIDTH).scale(rates, at, at.dtype), rates)


@pytest.mark.parametrize("default", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn", "llama3"])
def test_rates_are_the_same_whatever_torchs_default_type_is(kind: str, default: torch.dtype):
    length = {} if kind == "linear" else {"trained_length": TRAINED}
    scaling, at = scalings.build({"name": kind, "factor": 3.0, **length}, 300.0, WIDTH), torch.arange(LONG)[None]

    def rates() -> Tensor:
        return scaling.scale(plain_rates(300.0, WIDTH, at.device), at, torch.float32)

    expected = rates()
    torch.set_default_dtype(default)
    try:
        found = rates()
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.dtype == expected.dtype and torch.equal(found, expected)
