"""The norm of gradients against float64, and limits to it against torch's own."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from zoo.models.create import create_model
from zoo.models.model import Model
from zoo.training.clipping import clip_to_norm, divides_gradients, total_norm
from zoo.training.optimizers.optimizer import optimizers

KERNELS = {"adamw", "adam", "sgd"}  # that divide


def gradients(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(2**15, 96), (96, 2**12), (3, 4, 5, 5), (7,), (), (2, 0)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def test_a_norm_of_millions_of_numbers_is_right_to_the_last_digits():
    expected = sum(one.double().square().sum() for one in gradients()).sqrt()
    assert abs(total_norm(gradients()).double() / expected - 1) < 2e-7
    assert total_norm(gradients(torch.float64)).dtype == torch.float64
    assert total_norm([]) == 0


@pytest.mark.parametrize("bad", [torch.inf, torch.nan])
def test_a_number_that_is_none_makes_the_norm_none(bad: float):
    found = gradients()
    found[0][-1, -1] = bad
    assert not total_norm(found).isfinite()


def trained(name: str, dtype: torch.dtype = torch.float32, **options: Any) -> tuple[Model, torch.optim.Optimizer]:
    """A model that has gradients, and an optimizer of it."""
    torch.manual_seed(0)
    model = create_model("gpt2-nano", vocab_size=40).to(dtype)
    for number, parameter in enumerate(model.parameters()):
        torch.manual_seed(number)
        parameter.grad = torch.randn_like(parameter)
    return model, optimizers.build({"name": name, **options}, model, 0.1)


@pytest.mark.parametrize("limit", [0.5, 1e6])
@pytest.mark.parametrize("name", optimizers.names())
def test_a_step_with_a_limit_is_that_of_gradients_which_torch_has_clipped(name: str, limit: float):
    (ours, optimizer), (theirs, other) = trained(name), trained(name)
    assert divides_gradients(optimizer) == (name in KERNELS)
    for _ in range(2):
        parameters = list(ours.parameters())
        clip_to_norm(parameters, optimizer, total_norm([p.grad for p in parameters if p.grad is not None]), limit)
        nn.utils.clip_grad_norm_(theirs.parameters(), limit)
        optimizer.step()
        other.step()
        limit *= 2  # of the step before, nothing stays
    for one, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("options", [{"fused": False}, {"dtype": torch.float64}], ids=str)
def test_kernels_that_divide_no_gradients_get_them_clipped(options: dict[str, Any]):
    model, optimizer = trained("adamw", **options)
    parameters = list(model.parameters())
    assert not divides_gradients(optimizer)
    clip_to_norm(parameters, optimizer, total_norm([p.grad for p in parameters if p.grad is not None]), 0.5)
    assert abs(total_norm([p.grad for p in parameters if p.grad is not None]) - 0.5) < 1e-6


def test_a_limit_divides_by_the_norm_and_what_torch_adds_to_it():
    (model, optimizer), norm, only = trained("sgd"), torch.tensor(3e-6), nn.Parameter(torch.ones(()))
    clip_to_norm(list(model.parameters()), optimizer, norm, 1e-6)
    only.grad = torch.ones(())
    nn.utils.clip_grads_with_norm_([only], 1e-6, norm)
    torch.testing.assert_close(1 / optimizer.grad_scale, only.grad)
