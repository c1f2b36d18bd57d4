"""Which maps of a model are multiplied by the kernel for few vectors, and which stay what they are."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from zoo import create_model
from zoo.blocks.attention import ProjectedAttention
from zoo.blocks.feed_forward import MLP
from zoo.models.generation import product
from zoo.models.generation.fast import fast_generation, replacements
from zoo.models.generation.product import Product, is_faster
from zoo.models.model import Model

WITH_ONEDNN = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch is built without oneDNN here")
HAS_HALF = torch.ops.mkldnn._is_mkldnn_bf16_supported()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any matrix is large enough, on any processor."""
    monkeypatch.setattr(product, "prefers_reordered_float32", lambda: True)
    monkeypatch.setattr(product, "MAX_UNREORDERED", 0)


def unchanged(model: Model) -> bool:
    """Whether the model says with fast generation what it says without."""
    tokens = torch.tensor([[5, 7, 9], [11, 6, 8]])
    with torch.no_grad():
        said = model.eval()(tokens).logits.float()
        with fast_generation(model):
            again = model(tokens).logits.float()
    return torch.allclose(again, said, rtol=0, atol=2**-6 * float(said.abs().max()))


class Twice(nn.Linear):
    """2 (W x + b)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


def twice(attention: ProjectedAttention) -> None:
    attention.value.__class__ = Twice


def without_bias(attention: ProjectedAttention) -> None:
    attention.key.bias = None


@WITH_ONEDNN
@pytest.mark.parametrize("change", [twice, without_bias])
def test_maps_of_one_attention_that_are_not_alike_say_each_its_own(change: Callable[[ProjectedAttention], None]):
    model = create_model("gpt2-nano")
    for module in model.modules():
        if isinstance(module, ProjectedAttention):
            nn.init.normal_(module.query.bias)
            change(module)
    assert unchanged(model)


def test_an_attention_to_another_part_multiplies_for_its_query_alone():
    model = create_model("transformer-nano")
    found = replacements(model)
    for attention in (module for module in model.modules() if isinstance(module, ProjectedAttention)):
        assert isinstance(found[attention.query], Product) is attention.crosses


def before(module: nn.Module, given: Any) -> Any:
    return (given[0] + 1,)


def behind(module: nn.Module, given: Any, said: torch.Tensor) -> torch.Tensor:
    return said + given[0]


@pytest.mark.skipif(not HAS_HALF, reason="oneDNN has no bfloat16 here")
@pytest.mark.parametrize("hook", [before, behind])
def test_hooks_of_an_activation_are_given_what_goes_into_it(hook: Callable[..., Any]):
    model = create_model("gpt2-nano").to(torch.bfloat16)
    for module in model.modules():
        if isinstance(module, MLP):
            (
                module.activation.register_forward_pre_hook
                if hook is before
                else module.activation.register_forward_hook
            )(hook)
    assert unchanged(model)


def test_bfloat16_gains_whatever_its_size_where_there_are_kernels_and_no_weight_of_inference_mode(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(product, "MAX_UNREORDERED", 2**16)
    assert is_faster(torch.ones(2, 2).bfloat16()) is HAS_HALF and not is_faster(torch.ones(2, 2))
    with torch.inference_mode():  # of which nobody can tell whether it has changed
        assert not is_faster(torch.ones(256, 257))
