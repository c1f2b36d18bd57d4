import pytest
import torch
from torch.nn import functional as F

from zoo.objectives import cross_entropy as module
from zoo.objectives.cross_entropy import cross_entropy


@pytest.fixture(autouse=True, params=[25, 5])  # two rows of 11 at a time; a vocabulary larger than a chunk
def small_chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ELEMENTS_ON_CPU", request.param)


def logits_and_targets(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = 5 * torch.randn(3, 5, 11, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 11, (3, 5), generator=generator)
    targets[0, 2] = targets[2, 4] = -1
    return logits.to(dtype).requires_grad_(), targets


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_it_equals_torchs_cross_entropy_and_its_gradient(label_smoothing: float):
    logits, targets = logits_and_targets()
    twin = logits.detach().clone().requires_grad_()
    ours = cross_entropy(logits, targets, label_smoothing)
    flat = twin.flatten(0, 1), targets.flatten()
    theirs = F.cross_entropy(*flat, ignore_index=-1, reduction="sum", label_smoothing=label_smoothing)
    torch.testing.assert_close(ours, theirs)
    (3 * ours).backward()
    (3 * theirs).backward()
    torch.testing.assert_close(logits.grad, twin.grad)


def test_smoothing_is_the_papers_formula():
    logits, targets = logits_and_targets()
    q = 0.9 * F.one_hot(targets.clamp_min(0), 11) + 0.1 / 11
    expected = -(q * logits.log_softmax(-1)).sum(-1)[targets >= 0].sum()
    torch.testing.assert_close(cross_entropy(logits, targets, 0.1), expected)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_gradients_are_right_by_finite_differences(label_smoothing: float):
    logits, targets = logits_and_targets()
    assert torch.autograd.gradcheck(lambda x: cross_entropy(x, targets, label_smoothing), logits)


def test_unscored_places_cost_nothing_and_get_exactly_no_gradient_whatever_stands_there():
    logits, targets = logits_and_targets(torch.float32)
    spoiled = logits.detach().clone()
    spoiled[0, 2], spoiled[2, 4] = float("inf"), float("nan")
    spoiled.requires_grad_()
    loss = cross_entropy(spoiled, targets)
    loss.backward()
    assert loss.item() == cross_entropy(logits, targets).item()
    assert spoiled.grad is not None and not spoiled.grad[targets < 0].any()
    assert spoiled.grad.isfinite().all()


@pytest.mark.parametrize("places", [0, 4])
def test_nothing_scored_costs_zero(places: int):
    logits = torch.randn(places, 11, requires_grad=True)
    loss = cross_entropy(logits, torch.full((places,), -1))
    loss.backward()
    assert loss.item() == 0.0
    assert logits.grad is not None and not logits.grad.any()


def test_bfloat16_logits_are_summed_in_float32_and_get_a_bfloat16_gradient():
    logits, targets = logits_and_targets(torch.bfloat16)
    loss = cross_entropy(logits, targets)
    loss.backward()
    exact = logits.detach().double().requires_grad_()
    cross_entropy(exact, targets).backward()
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), cross_entropy(exact, targets), rtol=1e-5, atol=1e-5)
    assert logits.grad is not None and logits.grad.dtype == torch.bfloat16
    assert exact.grad is not None
    torch.testing.assert_close(logits.grad.double(), exact.grad, rtol=1e-2, atol=1e-3)


def test_the_logits_are_left_as_they_are():
    logits, targets = logits_and_targets()
    before = logits.detach().clone()
    cross_entropy(logits, targets, 0.1).backward()
    assert torch.equal(logits, before)
