"""Claims about averaged weights: they follow the formula, and showing them changes no bit of the model."""

import torch
from tiny import TinyModel

from zoo.training.weights.averaging import MovingAverage, mean_of, swapped_in


def test_a_moving_average_follows_the_formula():
    model = TinyModel()
    average = MovingAverage(model, 0.5)
    expected = model.hidden.weight.detach().clone()
    for update in range(1, 12):
        with torch.no_grad():
            model.hidden.weight.add_(1.0)
        average.update(model, update, torch.tensor(0.0))
        decay = min(0.5, (1 + update) / (10 + update))
        expected = decay * expected + (1 - decay) * model.hidden.weight.detach()
    torch.testing.assert_close(average.weights["hidden.weight"], expected)


def test_a_step_that_was_none_moves_no_average():
    model, average = TinyModel(), MovingAverage(TinyModel(seed=1), 0.5)
    before = {name: weight.clone() for name, weight in average.weights.items()}
    average.update(model, 3, torch.tensor(1.0))
    assert all(torch.equal(weight, before[name]) for name, weight in average.weights.items())
    assert not torch.equal(before["hidden.weight"], model.hidden.weight)


def test_the_mean_takes_every_checkpoint_alike():
    model = TinyModel()
    others = [{name: p.detach() + shift for name, p in model.named_parameters()} for shift in (1.0, 5.0)]
    torch.testing.assert_close(mean_of(model, others)["hidden.bias"], model.hidden.bias.detach() + 2.0)


def test_weights_that_are_not_swapped_stay():
    model = TinyModel()
    bias, other = model.hidden.bias.detach().clone(), {"output.bias": torch.full((11,), 0.1)}
    with swapped_in(model, dict(other)):
        assert (model.output.bias == 0.1).all() and torch.equal(model.hidden.bias, bias)


def test_shown_weights_are_seen_and_then_gone_to_the_last_bit():
    model = TinyModel()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    other = {name: torch.full_like(p, 0.1) for name, p in before.items()}
    with swapped_in(model, other):
        assert torch.equal(model.output.weight, other["embedding.weight"].new_full((11, 5), 0.1))
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert all(torch.equal(p, torch.full_like(p, 0.1)) for p in other.values())
