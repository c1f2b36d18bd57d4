"""Activations against their formulas in float64."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from zoo.blocks import tanh_gelu as tanh_gelu_module
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


@pytest.mark.parametrize(("dtype", "rounding"), [(torch.float32, 2**-22), (torch.bfloat16, 2**-7)])
def test_tanh_gelu_in_training_is_its_formula_with_its_gradient(
    dtype: torch.dtype, rounding: float, monkeypatch: pytest.MonkeyPatch
):
    """In parts, the last of which is smaller, of a tensor that is not contiguous."""
    monkeypatch.setattr(tanh_gelu_module, "PART", 40)
    x = torch.linspace(-12, 12, 7 * 13).to(dtype).view(7, 13).T.requires_grad_()
    exact = x.detach().double().requires_grad_()
    y, expected = tanh_gelu_module.tanh_gelu(x), FORMULAS["gelu_tanh"](exact)
    assert y.grad_fn is not None and y.grad_fn.name() == "TanhGELUBackward"
    given = torch.linspace(-1, 1, 7 * 13, dtype=torch.float64).view(13, 7).to(dtype)
    y.backward(given)
    expected.backward(given.double())
    torch.testing.assert_close(y.double(), expected, rtol=2 * rounding, atol=2 * rounding)
    torch.testing.assert_close(x.grad.double(), exact.grad, rtol=4 * rounding, atol=4 * rounding)


@pytest.mark.parametrize("size", [1.0e4, 1.0e12])
def test_tanh_gelu_of_huge_numbers_is_finite(size: float, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tanh_gelu_module, "PART", 1)
    x = torch.tensor([size, -size], requires_grad=True)
    y = tanh_gelu_module.tanh_gelu(x)
    y.sum().backward()
    assert y.tolist() == [x[0].item(), 0.0] and x.grad is not None and x.grad.tolist() == [1.0, 0.0]


def test_tanh_gelu_in_inference_or_on_request_is_torchs_kernel(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tanh_gelu_module, "PART", 1)
    x = torch.linspace(-5, 5, 101)
    trained = x.clone().requires_grad_()
    with torch.no_grad():
        frozen = tanh_gelu_module.tanh_gelu(trained)
    for y in (frozen, tanh_gelu_module.tanh_gelu(x), tanh_gelu_module.tanh_gelu(trained, fast=False)):
        assert torch.equal(y, torch.nn.functional.gelu(x, approximate="tanh"))
