"""Feed-forwards against their formulas in float64."""

import pytest
import torch
from torch.nn import functional as F

from zoo.blocks.feed_forward import MLP, GatedMLP, feed_forwards

EXACT = {"rtol": 1e-12, "atol": 1e-12}


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(2, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_mlp_is_equation_2_of_the_2017_paper(x: torch.Tensor):
    ff = MLP(5, 7).double()
    expected = (x @ ff.up.weight.T + ff.up.bias).clamp_min(0) @ ff.down.weight.T + ff.down.bias
    torch.testing.assert_close(ff(x), expected, **EXACT)


@pytest.mark.parametrize(("activation", "f"), [("silu", F.silu), ("gelu", F.gelu), ("relu", F.relu)])
def test_gated_is_equation_6_of_shazeer(x: torch.Tensor, activation: str, f):
    ff = GatedMLP(5, 7, activation=activation).double()
    expected = (f(x @ ff.gate.weight.T) * (x @ ff.up.weight.T)) @ ff.down.weight.T
    torch.testing.assert_close(ff(x), expected, **EXACT)


@pytest.mark.parametrize("name", feed_forwards.names())
def test_without_bias_a_feed_forward_has_matrices_only(name: str):
    ff = feed_forwards[name](5, 7, bias=False)
    assert {p.ndim for p in ff.parameters()} == {2}


@pytest.mark.parametrize("name", feed_forwards.names())
def test_dropping_all_inner_activations_leaves_the_last_bias(name: str, x: torch.Tensor):
    ff = feed_forwards[name](5, 7, bias=True).double().train()
    ff.dropout.forward = torch.zeros_like
    assert torch.equal(ff(x), ff.down.bias.expand_as(x))
