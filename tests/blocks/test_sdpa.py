"""Backend `sdpa` where few queries read a memory: products of matrices, and what is kept in which dtype."""

import pytest
import torch
from test_attention import EXACT, randn
from test_backends import UNORDERED, view_of
from torch.nn import functional as F

from zoo.blocks.attention import FullAttention
from zoo.blocks.backends import sdpa
from zoo.blocks.backends.eager import Eager
from zoo.blocks.backends.sdpa import by_products
from zoo.blocks.position import positions


@pytest.mark.parametrize("position", [None, "alibi"])
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("spare", [0, 3])
def test_products_with_keys_on_the_left_are_the_formula(position: str | None, window: int | None, spare: int):
    made = None if position is None else positions.build(position, 12, 4, 4, 16, True).double()
    view = view_of(UNORDERED, UNORDERED, causal=True, position=made)
    queries, keys, values = randn(2, 4, 6, 3), randn(2, 2, 6, 3), randn(2, 2, 6, 5)
    rule = FullAttention(8, 4, d_key=3, window=window).double().rule(False)
    expected = Eager().attend(queries, keys, values, view.afresh(), rule)
    keys, values = (F.pad(x, (0, 0, 0, spare)) for x in (keys, values))  # of places that are not yet written
    torch.testing.assert_close(by_products(queries, keys, values, view, rule), expected, **EXACT)


@pytest.mark.parametrize(
    ("rows", "places", "kept"), [(16, 33, torch.bfloat16), (16, 32, torch.bfloat16), (15, 33, torch.float32)]
)
def test_many_rows_are_kept_in_bfloat16_and_read_by_products_where_they_are_long(
    monkeypatch: pytest.MonkeyPatch, rows: int, places: int, kept: torch.dtype
):
    attention, asked = FullAttention(64, 4).bfloat16(), []
    monkeypatch.setattr(sdpa, "by_products", lambda *given: asked.append(given) or by_products(*given))
    numbers = torch.ones(rows, places, dtype=torch.long)
    x, view = randn(rows, places, 64).bfloat16(), view_of(numbers[:, :1], numbers)
    with torch.no_grad():
        new = attention.read(x)
        cache = attention.cache(new, places)
        cache.write(new, 0, places)
        found = attention.step(x[:, :1], cache.read(), view)
        expected = attention.step(x[:, :1], new.to(torch.float32), view)
    assert cache.read().keys.dtype == kept
    by_matrices = kept == torch.bfloat16 and places == 33
    assert len(asked) == by_matrices
    assert by_matrices or torch.equal(found, expected)  # in float32 nothing is lost of what is kept in bfloat16
    torch.testing.assert_close(found, expected, atol=0.01, rtol=0.02)


@pytest.mark.parametrize("dropout", [0.0, 1e-9])
@pytest.mark.parametrize("training", [False, True])
def test_spare_slots_weigh_nothing_whatever_computes(dropout: float, training: bool):
    """With dropout in training the formula does; nothing is dropped here."""
    attention = FullAttention(64, 4, dropout=dropout).bfloat16().train(training)
    numbers = torch.ones(16, 41, dtype=torch.long)
    x, view = randn(16, 41, 64).bfloat16(), view_of(numbers[:, :1], numbers)
    with torch.no_grad():
        new = attention.read(x)
        cache = attention.cache(new, 200)
        cache.write(new, 0, 41)
        found = attention.step(x[:, :1], cache.read(), view)
        expected = attention.step(x[:, :1], new.to(torch.float32), view)
    assert cache.read().keys.shape[2] > 41
    torch.testing.assert_close(found, expected, atol=0.01, rtol=0.02)
