"""The cross entropy of a linear map, against the two lines that it is."""

from collections.abc import Iterator

import pytest
import torch
from head_inputs import CLASSES, WIDTH, Given, given
from torch import Tensor
from torch.nn import functional as F

from zoo.models.heads import cross_entropy as cross_entropy_module
from zoo.models.heads.scores import Scores
from zoo.objectives.objective import objectives

WAYS = pytest.mark.parametrize("way", ["chunked", "whole"])
SMOOTHING = pytest.mark.parametrize("label_smoothing", [0.0, 0.1])


CHUNKS = {"small": (55, 25, 1), "less than a row": (55, 5, 1), "one": (2**20, 2**20, 1), "with room": (64, 32, 8)}


@pytest.fixture(autouse=True, params=CHUNKS.values(), ids=CHUNKS)
def chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """How many logits there are at a time, and how many of those in float32; and to what their rows are aligned."""
    monkeypatch.setattr(cross_entropy_module, "FEW", CLASSES)
    for name, value in zip(("LOGITS_ON_CPU", "EXACT_ON_CPU", "ALIGNED_ON_CPU"), request.param, strict=True):
        monkeypatch.setattr(cross_entropy_module, name, value)
    yield


def go(way: str, scores: Scores) -> Scores:
    """Scores whose loss is computed in a way."""
    scores.chunked = way == "chunked"
    return scores


def formula(one: Given, label_smoothing: float) -> Tensor:
    q = (1 - label_smoothing) * F.one_hot(one.targets.clamp_min(0), CLASSES) + label_smoothing / CLASSES
    log_p = F.linear(one.states, one.weight, one.bias).log_softmax(-1)
    return -(q * log_p).sum(-1)[one.targets >= 0].sum()


@SMOOTHING
@pytest.mark.parametrize("bias", [True, False])
@WAYS
def test_it_is_the_papers_formula_with_its_gradients(
    label_smoothing: float, bias: bool, way: str, monkeypatch: pytest.MonkeyPatch
):
    one = given(bias=bias)
    found = go(way, one.scores).cross_entropy(one.targets, label_smoothing, guess=True)
    expected = formula(one, label_smoothing)
    torch.testing.assert_close(found.sum, expected)
    torch.testing.assert_close(found.likelihood, formula(one, 0.0))
    assert not found.likelihood.requires_grad
    assert torch.equal(found.guesses, one.scores.logits().argmax(-1))
    torch.testing.assert_close(
        torch.autograd.grad(3 * found.sum, one.inputs), torch.autograd.grad(3 * expected, one.inputs)
    )


@SMOOTHING
def test_gradients_are_right_by_finite_differences(label_smoothing: float):
    one = given()
    given_targets = one.targets
    assert torch.autograd.gradcheck(
        lambda *inputs: Scores(*inputs).cross_entropy(given_targets, label_smoothing).sum, one.inputs, fast_mode=True
    )


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_what_is_frozen_gets_no_gradient_and_the_others_keep_theirs(frozen: int):
    one, other = given(), given()
    one.inputs[frozen].requires_grad_(False)
    for each in (one, other):
        each.scores.cross_entropy(each.targets).sum.backward()
    for number, (ours, theirs) in enumerate(zip(one.inputs, other.inputs, strict=True)):
        assert ours.grad is None if number == frozen else torch.equal(ours.grad, theirs.grad)


@WAYS
def test_unscored_positions_cost_nothing_and_get_exactly_no_gradient(way: str):
    one = given(torch.float32)
    far = one.states.detach().clone()
    far[0, 2], far[2, 4] = 1e30, -1e30
    spoiled = one._replace(states=far.requires_grad_())
    loss = go(way, spoiled.scores).cross_entropy(one.targets).sum
    loss.backward()
    assert loss.item() == go(way, one.scores).cross_entropy(one.targets).sum.item()
    assert far.grad is not None and not far.grad[one.targets < 0].any() and far.grad.isfinite().all()
    assert one.weight.grad is not None and one.weight.grad.isfinite().all()


@pytest.mark.parametrize("places", [0, 4])
def test_nothing_scored_costs_zero(places: int):
    states, weight = torch.randn(places, WIDTH, requires_grad=True), torch.randn(CLASSES, WIDTH, requires_grad=True)
    found = Scores(states, weight).cross_entropy(torch.full((places,), -1), guess=True)
    found.sum.backward()
    assert found.sum.item() == found.likelihood.item() == 0.0 and found.guesses.shape == (places,)
    for tensor in (states, weight):
        assert tensor.grad is not None and not tensor.grad.any()


@SMOOTHING
@WAYS
def test_logits_far_from_zero_lose_no_digits(label_smoothing: float, way: str):
    """The offset is that of the bias, and no probability depends on it."""
    one, other = given(torch.float64), given(torch.float32)
    assert one.bias is not None and other.bias is not None
    with torch.no_grad():
        for tensor in (*one.inputs, *other.inputs):
            tensor.copy_((2 * tensor).round() / 2)  # so that logits are exact in float32
        other.bias.add_(2.0**20)
    found = go(way, other.scores).cross_entropy(other.targets, label_smoothing).sum
    torch.testing.assert_close(found.double(), formula(one, label_smoothing), rtol=1e-6, atol=0)


def test_autocast_narrows_the_products_alone():
    """Sums are in float32, gradients have the dtype of what they are of."""
    one = given(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        scores = one.scores
    loss = scores.cross_entropy(one.targets).sum
    exact = Given(*(tensor.detach().bfloat16().double().requires_grad_() for tensor in one.inputs), one.targets)
    expected = formula(exact, 0.0)
    assert scores.logits().dtype == torch.bfloat16 and loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), expected, rtol=1e-2, atol=0)
    loss.backward()
    expected.backward()
    for ours, theirs in zip(one.inputs, exact.inputs, strict=True):
        assert ours.grad is not None and theirs.grad is not None and ours.grad.dtype == torch.float32
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=2e-2, atol=3e-2)


@WAYS
@SMOOTHING
def test_sums_are_in_float32_whatever_the_products(way: str, label_smoothing: float):
    one = given(torch.bfloat16)
    said = one.scores.logits().detach().double()
    itself = Given(said, torch.eye(CLASSES, dtype=torch.float64), None, one.targets)
    found = go(way, one.scores).cross_entropy(one.targets, label_smoothing).sum
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), formula(itself, label_smoothing), rtol=1e-6, atol=0)


@WAYS
def test_the_likeliest_of_few_classes_is_told_apart_where_bfloat16_cannot(way: str):
    """1 and 1 + 2^-10 are the same in bfloat16; predictions rank what is exact, and metrics must agree with them."""
    states, weight = torch.tensor([[1.0, 1.0], [1.0, -1.0]]), torch.tensor([[1.0, 0.0], [1.0, 2.0**-10]])
    with torch.autocast("cpu", torch.bfloat16):
        scores = go(way, Scores(states, weight))
        assert len(scores.logits().unique()) == 1
        found = scores.cross_entropy(torch.tensor([1, 0]), guess=True)
    assert found.guesses is not None and found.guesses.tolist() == [1, 0]


@pytest.mark.parametrize("name", ["classification", "tagging"])
def test_the_likeliest_of_many_classes_is_told_apart_where_predictions_are(name: str, monkeypatch: pytest.MonkeyPatch):
    states, weight = torch.tensor([[1.0, 1.0], [1.0, -1.0]]), torch.tensor([[1.0, 0.0], [1.0, 2.0**-10]])
    monkeypatch.setattr(cross_entropy_module, "FEW", 1)
    with torch.autocast("cpu", torch.bfloat16):
        found = objectives.build(name).term(Scores(states, weight), torch.tensor([1, 0]))
    assert found.guesses is not None and found.guesses.tolist() == [1, 0]


def test_autocast_leaves_float64_alone():
    one = given()
    with torch.autocast("cpu", torch.bfloat16):
        assert one.scores.logits().dtype == torch.float64


def test_what_was_said_without_gradients_has_none_later():
    one = given()
    with torch.no_grad():
        scores = one.scores
    assert not scores.logits().requires_grad and not scores.cross_entropy(one.targets).sum.requires_grad


def test_inputs_are_left_as_they_are_and_a_second_pass_back_gives_the_same():
    one = given()
    before = [tensor.detach().clone() for tensor in one.inputs]
    loss = one.scores.cross_entropy(one.targets, 0.1).sum
    first, second = (torch.autograd.grad(loss, one.inputs, retain_graph=True) for _ in range(2))
    assert all(map(torch.equal, before, one.inputs)) and all(map(torch.equal, first, second))


def test_other_states_are_scored_as_the_first_ones_are():
    one = given(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = one.scores
    scores.chunked = False
    others = scores.with_states(one.states[:1])
    assert others.logits().dtype == torch.bfloat16 and not others.chunked
    assert torch.equal(others.logits(), scores.logits()[:1])


@WAYS
def test_infinite_logits_of_unscored_positions_change_no_gradient(way: str):
    states = torch.tensor([[300.0, 300.0], [1.0, 2.0]], dtype=torch.float16, requires_grad=True)
    weight = torch.full((3, 2), 150.0, dtype=torch.float16, requires_grad=True)
    scores = go(way, Scores(states, weight))
    assert scores.logits()[0].isinf().all()
    loss = scores.cross_entropy(torch.tensor([-1, 1])).sum
    loss.backward()
    assert loss.isfinite() and states.grad.isfinite().all() and weight.grad.isfinite().all()
    assert not states.grad[0].any()
