"""Scores against their formulas in float64, query by query and key by key."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from zoo.blocks.score import Score, scores

EXACT = {"rtol": 1e-12, "atol": 1e-12}
FORMULAS: dict[str, Callable[[Any, Tensor, Tensor], Tensor]] = {
    "dot": lambda score, q, k: q @ k,
    "scaled_dot": lambda score, q, k: q @ k / math.sqrt(5),
    "bilinear": lambda score, q, k: q @ score.query.weight.T @ k,
    "additive": lambda score, q, k: score.weigh.weight[0] @ torch.tanh(score.query.weight @ q + score.key.weight @ k),
}


def build(name: str, d_query: int, d_key: int, **options: Any) -> Score:
    score = scores.build({"name": name, **options}, d_query, d_key).double()
    for seed, parameter in enumerate(score.parameters()):
        nn.init.normal_(parameter, generator=torch.Generator().manual_seed(seed))
    return score


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def compared(score: Score, queries: Tensor, keys: Tensor) -> Tensor:
    return score.compare(score.transform_queries(queries), score.transform_keys(keys))


def one_by_one(score: Score, name: str, queries: Tensor, keys: Tensor) -> Tensor:
    rows = [[FORMULAS[name](score, q, k) for k in keys] for q in queries]
    return torch.stack([torch.stack(row) for row in rows])


@pytest.mark.parametrize("name", scores.names())
def test_a_score_is_its_formula(name: str):
    score, queries, keys = build(name, 5, 5), drawn(2, 3, 5, seed=8), drawn(2, 7, 5, seed=9)
    expected = torch.stack([one_by_one(score, name, q, k) for q, k in zip(queries, keys, strict=True)])
    torch.testing.assert_close(compared(score, queries, keys), expected, **EXACT)


@pytest.mark.parametrize(("name", "options"), [("bilinear", {}), ("additive", {}), ("additive", {"d_hidden": 4})])
def test_learned_scores_compare_queries_and_keys_of_other_widths(name: str, options: dict[str, int]):
    score, queries, keys = build(name, 3, 5, **options), drawn(2, 3, seed=8), drawn(7, 5, seed=9)
    torch.testing.assert_close(compared(score, queries, keys), one_by_one(score, name, queries, keys), **EXACT)
    assert score.transform_queries(queries).shape[-1] == options.get("d_hidden", 5)  # as wide as a key


@pytest.mark.parametrize("name", ["dot", "scaled_dot"])
def test_an_inner_product_of_other_widths_is_refused(name: str):
    message = rf"score '{name}': queries are 3 wide, keys 5, .* choose bilinear or additive, or make them equally wide"
    with pytest.raises(ValueError, match=message):
        scores.build(name, 3, 5)


def test_a_hidden_layer_without_units_is_refused():
    with pytest.raises(ValueError, match=r"d_hidden must be at least 1, got 0"):
        scores.build({"name": "additive", "d_hidden": 0}, 3, 5)
