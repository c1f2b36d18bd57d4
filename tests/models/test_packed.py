"""Packed matrices multiply as the matrices themselves, and never as what these were before."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from zoo import create_model
from zoo.models.generation.packed import Laid, Product, Together, gains, known, multiply, packed

pytestmark = pytest.mark.skipif(not gains(torch.ones(2, 2).bfloat16()), reason="oneDNN has no bfloat16 here")
CLOSE = {"rtol": 2**-7, "atol": 2**-7}


def linear(d_input: int, d_output: int, bias: bool) -> nn.Linear:
    return nn.Linear(d_input, d_output, bias).bfloat16().requires_grad_(False)


def exactly(map_: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    return F.linear(x.double(), map_.weight.double(), None if map_.bias is None else map_.bias.double())


@pytest.mark.parametrize("rows", [(1,), (5, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_a_packed_product_is_the_product(rows: tuple[int, ...], bias: bool):
    x, map_ = torch.randn(*rows, 48).bfloat16(), linear(48, 70, bias)
    torch.testing.assert_close(Product(map_)(x).double(), exactly(map_, x), **CLOSE)


@pytest.mark.parametrize("bias", [False, True])
def test_maps_of_one_input_are_one_product_each_with_its_own_part(bias: bool):
    maps = [linear(48, 70, bias), linear(48, 20, bias), linear(48, 30, bias)]
    together = Together(*maps)
    for x in (torch.randn(5, 2, 48).bfloat16(), torch.randn(5, 1, 48).bfloat16()):
        for number in (1, 2, 0):
            torch.testing.assert_close(together.part(number)(x).double(), exactly(maps[number], x), **CLOSE)


@pytest.mark.parametrize("attention", ["full", {"name": "grouped", "n_kv_heads": 1}], ids=str)
def test_a_packed_model_says_what_it_says_otherwise(attention: Any):
    model = create_model("gpt2-nano", **{"decoder.attention": attention}).bfloat16().eval()
    tokens = torch.randint(0, 200, (2, 5))
    with torch.no_grad():
        said = model(tokens).logits.float()
        with packed(model):
            again = model(tokens).logits.float()
    torch.testing.assert_close(again, said, rtol=0, atol=2**-6 * float(said.abs().max()))


def test_a_matrix_that_has_changed_is_packed_anew():
    weight, eye = nn.Parameter(torch.randn(6, 4).bfloat16()), torch.eye(4).bfloat16()
    first = Laid.of([weight])
    assert Laid.of([weight]) is first
    with torch.no_grad():
        weight[5, 3] += 1
    second = Laid.of([weight])
    weight.data[0, 0] *= -1
    assert second is not first and Laid.of([weight]) is not second
    with torch.no_grad():
        torch.testing.assert_close(multiply(eye, Laid.of([weight]).matrix, None), weight.detach().T)
        assert len(Laid.of([weight, weight]).prints) == 2


def test_a_model_is_left_with_its_own_maps():
    model = create_model("gpt2-nano").bfloat16()
    up = model.decoder.stack.blocks[0].feed_forward.up
    with pytest.raises(RuntimeError), packed(model):
        assert "forward" in up.__dict__
        raise RuntimeError
    assert not any("forward" in module.__dict__ for module in model.modules())
    with packed(model.float()):
        assert "forward" not in up.__dict__  # what float32 says stays as it is, bit by bit


def test_what_was_laid_out_goes_with_its_matrix():
    weight, before = torch.randn(6, 4).bfloat16(), len(known)
    Laid.of([weight])
    assert len(known) == before + 1
    del weight
    assert len(known) == before
