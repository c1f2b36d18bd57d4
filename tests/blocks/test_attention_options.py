"""Options of attention: what they are where they are not given, and what is refused."""

from typing import Any

import pytest

from zoo.blocks.attention import DirectAttention, FullAttention, GroupedAttention


@pytest.mark.parametrize(("options", "width"), [({}, (3, 3)), ({"d_key": 5}, (5, 3)), ({"d_value": 5}, (3, 5))])
def test_a_heads_width_is_d_model_over_n_heads_where_it_is_not_given(options: dict[str, Any], width: tuple[int, int]):
    attention = FullAttention(12, 4, **options)
    assert (attention.d_key, attention.d_value) == width


def test_values_are_as_wide_as_keys_where_heads_do_not_divide():
    attention = FullAttention(12, 5, d_key=2)
    assert (attention.d_key, attention.d_value) == (2, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_heads": 5}, r"d_model \(12\) must be a multiple of n_heads \(5\), or set d_key; .* 1, 2, 3, 4, 6$"),
        ({"n_kv_heads": 3}, r"n_heads \(4\) must be a multiple of n_kv_heads \(3\)"),
        ({"n_kv_heads": 0}, r"n_heads \(4\) must be a multiple of n_kv_heads \(0\)"),
        ({"window": 0}, "window must be at least 1, got 0"),
        ({"d_key": 0}, "d_key must be at least 1, got 0"),
        ({"d_value": -1}, "d_value must be at least 1, got -1"),
        ({"sinks": -1}, "sinks must be at least 0, got -1"),
        ({"dropout": 1.0}, r"attention dropout \(1.0\) must be at least 0 and below 1"),
    ],
)
def test_attention_refuses_what_does_not_fit(options: dict[str, Any], message: str):
    n_heads = options.pop("n_heads", 4)
    with pytest.raises(ValueError, match=message):
        GroupedAttention(12, n_heads, **{"n_kv_heads": 1, **options})


def test_direct_attention_refuses_widths_that_heads_do_not_divide():
    with pytest.raises(ValueError, match=r"d_model \(10\) must be a multiple of n_heads \(4\)"):
        DirectAttention(10, 4, 12, score="additive")
