"""Packed matrices multiply as the matrices themselves, and never as what these were before."""

import pytest
import torch
from torch.nn import functional as F

from zoo import create_model
from zoo.models.generation.packed import Packed, gains, known, packed, packed_of

pytestmark = pytest.mark.skipif(not gains(torch.ones(2, 2).bfloat16()), reason="oneDNN has no bfloat16 here")


@pytest.mark.parametrize("rows", [(1,), (5, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_a_packed_product_is_the_product(rows: tuple[int, ...], bias: bool):
    drawn = torch.Generator().manual_seed(0)
    x, weight, added = (torch.randn(*shape, generator=drawn).bfloat16() for shape in ((*rows, 48), (70, 48), (70,)))
    given = added if bias else None
    exact = F.linear(x.double(), weight.double(), None if given is None else given.double())
    torch.testing.assert_close(F.linear(x, Packed.of(weight), given).double(), exact, rtol=2**-7, atol=2**-7)


def test_a_matrix_that_has_changed_is_packed_anew():
    weight = torch.nn.Parameter(torch.randn(6, 4).bfloat16())
    first = packed_of(weight)
    assert packed_of(weight) is first
    with torch.no_grad():
        weight[5, 3] += 1
    second = packed_of(weight)
    weight.data *= 2
    assert second is not first and packed_of(weight) is not second
    torch.testing.assert_close(F.linear(torch.eye(4).bfloat16(), packed_of(weight)), weight.detach().T)


def test_a_model_is_left_with_its_own_matrices():
    model = create_model("gpt2-nano").bfloat16()
    tokens, up = model.decoder.embeddings.tokens, model.decoder.stack.blocks[0].feed_forward.up
    with pytest.raises(RuntimeError), packed(model):
        assert isinstance(tokens.weight, Packed) and isinstance(up.weight, Packed)
        raise RuntimeError
    assert not isinstance(tokens.weight, Packed) and up.weight is dict(up.named_parameters())["weight"]
    with packed(model.float()):
        assert not isinstance(up.weight, Packed)  # what float32 says stays as it is, bit by bit


def test_what_was_laid_out_goes_with_its_matrix():
    weight, before = torch.randn(6, 4).bfloat16(), len(known)
    F.linear(torch.eye(4).bfloat16(), packed_of(weight))
    assert len(known) == before + 1
    del weight
    assert len(known) == before
