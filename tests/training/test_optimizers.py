"""Claims about optimizers: matrices decay and vectors do not, and an update is the formula of the paper."""

import pytest
import torch
from tiny import TinyModel

from zoo.models.create import create_model
from zoo.training.optimizers import optimizers


def one_update(choice: object) -> tuple[TinyModel, TinyModel]:
    """A model after one update with gradients that are all 1, and as it was."""
    before, after = TinyModel(), TinyModel()
    optimizer = optimizers.build(choice, after, 0.5)
    for parameter in after.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return before, after


@pytest.mark.parametrize("name", optimizers.names())
def test_the_first_update_moves_every_weight_by_the_rate(name: str):
    before, after = one_update({"name": name, "eps": 0.0})
    torch.testing.assert_close(after.hidden.bias, before.hidden.bias - 0.5)


def test_adamw_decays_matrices_and_leaves_vectors():
    before, after = one_update({"name": "adamw", "weight_decay": 0.2})
    torch.testing.assert_close(after.hidden.weight, before.hidden.weight * (1 - 0.5 * 0.2) - 0.5)
    torch.testing.assert_close(after.embedding.weight, before.embedding.weight * (1 - 0.5 * 0.2) - 0.5)
    torch.testing.assert_close(after.hidden.bias, before.hidden.bias - 0.5)


def test_adam_decays_nothing():
    before, after = one_update("adam")
    torch.testing.assert_close(after.hidden.weight, before.hidden.weight - 0.5)


def test_tied_and_frozen_parameters_are_counted_once_or_not_at_all():
    model = TinyModel()
    model.hidden.bias.requires_grad_(False)
    groups = optimizers.build("adamw", model, 0.5).param_groups
    assert [[tuple(p.shape) for p in group["params"]] for group in groups] == [[(11, 5), (5, 5)], [(11,)]]


def test_logits_of_attention_do_not_decay_whatever_their_shape():
    model = create_model("gpt2-nano", **{"attention.sinks": 2, "position": "relative"})
    decayed, others = ({id(p) for p in group["params"]} for group in optimizers.build("adamw", model, 0.5).param_groups)
    kept = {name for name, p in model.named_parameters() if id(p) in others and p.dim() > 1}
    assert {name.rpartition(".")[2] for name in kept} == {"sinks", "weight"} and len(kept) == 3
    assert all("sinks" in name or ".positions." in name for name in kept)
    assert len(decayed) + len(others) == len(list(model.parameters()))
