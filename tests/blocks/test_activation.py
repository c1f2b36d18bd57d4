"""Activations against their formulas in float64."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from zoo.blocks.activation import activations

FORMULAS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda x: torch.where(x > 0, x, 0.0),
    "gelu": lambda x: x * torch.distributions.Normal(0.0, 1.0).cdf(x),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "relu_squared": lambda x: torch.where(x > 0, x * x, 0.0),
    "tanh": lambda x: 1 - 2 / (torch.exp(2 * x) + 1),
}


def test_every_activation_has_its_formula_here():
    assert set(FORMULAS) == set(activations.names())


@pytest.mark.parametrize("name", FORMULAS)
def test_an_activation_is_its_formula(name: str):
    x = torch.linspace(-5, 5, 101, dtype=torch.float64)
    torch.testing.assert_close(activations.build(name)(x), FORMULAS[name](x), rtol=1e-7, atol=1e-7)
