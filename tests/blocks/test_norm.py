"""Norms against torch's own and against their formulas in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from zoo.blocks.norm import LayerNorm, RMSNorm, ScaleNorm, norms

EXACT = {"rtol": 1e-12, "atol": 1e-12}


def numbers(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype) + 1


def fill(module: nn.Module) -> None:
    """Weights that differ from what constructors give."""
    generator = torch.Generator().manual_seed(1)
    for parameter in module.parameters():
        nn.init.normal_(parameter, generator=generator)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_layernorm_is_torchs(bias: bool, dtype: torch.dtype):
    ours, theirs = LayerNorm(7, eps=1e-3, bias=bias).to(dtype), nn.LayerNorm(7, eps=1e-3, bias=bias, dtype=dtype)
    fill(ours)
    theirs.load_state_dict(ours.state_dict())
    x = numbers(2, 3, 7, dtype=dtype)
    torch.testing.assert_close(ours(x), theirs(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rmsnorm_is_llamas_to_the_last_bit(dtype: torch.dtype):
    """Rounded before the gain, and again after it."""
    ours, theirs = RMSNorm(7, eps=1e-3).to(dtype), LlamaRMSNorm(7, eps=1e-3).to(dtype)
    fill(ours)
    theirs.load_state_dict(ours.state_dict())
    x = numbers(2, 3, 7, dtype=dtype)
    assert torch.equal(ours(x), theirs(x))


def mean(x: Tensor) -> Tensor:
    return x.mean(-1, keepdim=True)


FORMULAS: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "layernorm": lambda x, own: (x - mean(x)) / (mean((x - mean(x)) ** 2) + 1e-3).sqrt() * own.weight + own.bias,
    "rmsnorm": lambda x, own: x / (mean(x**2) + 1e-3).sqrt() * own.weight,
    "scalenorm": lambda x, own: own.scale * x / x.square().sum(-1, keepdim=True).sqrt(),
}


def test_every_norm_has_its_formula_here():
    assert set(FORMULAS) == set(norms.names())


@pytest.mark.parametrize("name", FORMULAS)
def test_a_norm_is_its_formula(name: str):
    norm, x = norms.build({"name": name, "eps": 1e-3}, 7).double(), numbers(5, 7)
    fill(norm)
    torch.testing.assert_close(norm(x), FORMULAS[name](x, norm), **EXACT)


def test_scalenorm_gives_every_vector_the_length_of_its_scale():
    norm = ScaleNorm(16).double()
    torch.testing.assert_close(norm(numbers(2, 3, 16)).norm(dim=-1), torch.full((2, 3), 4.0).double(), **EXACT)


def test_scalenorm_divides_a_shorter_vector_than_its_eps_by_that():
    x = torch.tensor([[0.3, 0.4], [0.06, 0.08], [0.0, 0.0]], dtype=torch.float64)
    expected = 2**0.5 * torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(ScaleNorm(2, eps=0.2).double()(x), expected, rtol=1e-7, atol=0)


@pytest.mark.parametrize("norm", [LayerNorm(64), RMSNorm(64), ScaleNorm(64)], ids=lambda n: type(n).__name__)
def test_statistics_of_bfloat16_are_taken_in_float32(norm: nn.Module):
    x = numbers(5, 64, dtype=torch.bfloat16)
    torch.testing.assert_close(norm(x).double(), norm.double()(x.double()), rtol=2**-8, atol=1e-6)


@pytest.mark.parametrize("norm", [LayerNorm, RMSNorm, ScaleNorm])
def test_an_eps_below_0_whose_root_is_no_number_is_refused(norm: type[nn.Module]):
    with pytest.raises(ValueError, match="eps must be at least 0, got -1e-05"):
        norm(7, eps=-1e-5)
