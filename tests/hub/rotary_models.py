"""Random models with rotary positions and gated feed-forwards: settings by path, drawn from a seed."""

import random
from typing import Any

Sets = dict[str, Any]


def draw_decoder(seed: int, even: bool) -> Sets:
    """A decoder without a window and without normalized queries.

    Args:
        even: whether heads divide d_model, whatever their width is.
    """
    draw = random.Random(seed)
    n_heads, d_key = draw.choice([1, 2, 3, 4, 6]), draw.choice([2, 4, 6, 10])
    n_kv_heads = draw.choice([n for n in range(1, n_heads + 1) if n_heads % n == 0])
    attention = {"name": "grouped", "n_kv_heads": n_kv_heads} if n_kv_heads < n_heads else {"name": "full"}
    return {
        "d_model": n_heads * draw.choice([3, 4, 5, 7]) if even else draw.choice([5, 11, 16, 21]),
        "max_length": draw.choice([37, 41, 64]),
        "vocab_size": draw.choice([293, 300, 311]),
        "decoder.n_layers": draw.choice([1, 2, 3]),
        "decoder.n_heads": n_heads,
        "decoder.d_ff": draw.choice([7, 13, 32]),
        "decoder.attention": {**attention, "d_key": d_key, "d_value": d_key, "bias": False},
        "decoder.position.base": draw.choice([50.0, 10000.0, 500000.0]),
        "decoder.norm.eps": draw.choice([1e-6, 1e-5, 0.01]),
        "decoder.feed_forward.activation": draw.choice(["silu", "gelu", "gelu_tanh", "relu", "relu_squared"]),
        **draw.choice([{}, {"heads.language.tied": False}, {"heads": {"classification": {"labels": 3}}}]),
    }


def draw_encoder(seed: int) -> Sets:
    """An encoder with ModernBERT's choices."""
    draw = random.Random(seed)
    n_heads, bias, head_bias = draw.choice([1, 3, 4]), draw.random() < 0.5, draw.random() < 0.5
    norm = {"name": "layernorm", "bias": bias, "eps": draw.choice([1e-5, 1e-3])}
    window, activation = draw.choice([1, 2, 5, 9]), draw.choice(["gelu", "gelu_tanh", "silu", "relu"])
    layers = draw.choice([[None], [None, window], [None, window, window], [window], [None, None, window]])
    local = draw.choice([50.0, 10000.0])
    head = {"activation": activation, "norm": norm, "bias": head_bias}
    return {
        "d_model": n_heads * draw.choice([2, 4, 6, 8]),
        "max_length": draw.choice([37, 41, 64]),
        "vocab_size": draw.choice([293, 300, 311]),
        "embeddings.norm": norm,
        "pooler": head | {"mean": seed % 2 == 0},
        "heads": draw.choice([{"masked_lm": head}, {"classification": {"labels": 3}}]),
        "encoder.n_layers": draw.choice([1, 3, 4]),
        "encoder.n_heads": n_heads,
        "encoder.d_ff": draw.choice([7, 13, 32]),
        "encoder.norm": norm,
        "encoder.attention.bias": draw.random() < 0.5,
        "encoder.attention.window": layers,
        "encoder.position.base": [160000.0 if w is None else local for w in layers],
        "encoder.feed_forward.bias": draw.random() < 0.5,
        "encoder.feed_forward.activation": draw.choice(["gelu", "gelu_tanh", "silu", "relu", "relu_squared"]),
    }
