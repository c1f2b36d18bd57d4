"""What optimizers do at the edges: with gradients that are tiny or 0, and with options that nobody has set."""

from typing import Any

import pytest
import torch
from test_optimizers import split
from tiny import TinyModel
from torch import nn

from zoo.models.create import create_model
from zoo.training.optimizers.muon import hidden_matrices
from zoo.training.optimizers.optimizer import group_by_shape, optimizers


def step(model: nn.Module, optimizer: torch.optim.Optimizer, scale: float) -> None:
    """Three updates with gradients of about this size; the first column, and all of a matrix, have none."""
    generator = torch.Generator().manual_seed(5)
    for _ in range(3):
        for name, parameter in model.named_parameters():
            gradient = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * scale
            gradient[..., 0] = 0.0
            parameter.grad = gradient.to(parameter.dtype) * (name != "hidden.weight")
        optimizer.step()


@pytest.mark.parametrize("rate", [1e-2, 0.9])  # 0.9: the paper's 1 / sqrt(updates) is lower from the second on
@pytest.mark.parametrize("least", [1e-3, 10.0])  # 10: more than any weight here
@pytest.mark.parametrize(("memory", "threshold"), [(0.8, 1.0), (0.5, 1.1)])
# 1e-9: its square is less than what 1 is told apart by; 1e-17: less than the least moment
@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e-17])
def test_adafactor_is_torchs(rate: float, least: float, memory: float, threshold: float, scale: float):
    ours, theirs = TinyModel().double(), TinyModel().double()
    how = {"beta2_decay": -memory, "eps": (None, least), "d": threshold}
    step(theirs, torch.optim.Adafactor(split(theirs.parameters(), 0.1), rate, **how), scale)
    choice = {"name": "adafactor", "weight_decay": 0.1, "least_scale": least, "memory": memory, "threshold": threshold}
    step(ours, optimizers.build(choice, ours, rate), scale)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)


def test_adafactor_steps_each_of_several_scalars_in_proportion_to_its_size():
    model = nn.ParameterList([nn.Parameter(torch.tensor(value)) for value in (1.0, -100.0)])
    optimizer = optimizers.build({"name": "adafactor", "weight_decay": 0.0}, model, 0.01)
    for parameter in model:
        parameter.grad = torch.tensor(3.0)
    optimizer.step()
    torch.testing.assert_close([parameter.item() for parameter in model], [0.99, -101.0])


@pytest.mark.parametrize("name", optimizers.names())
def test_weights_whose_gradients_are_0_stay_as_they_are(name: str):
    """As those of a token that no row has, where nothing decays: 0 is not divided by 0."""
    model, before = TinyModel(), TinyModel()
    decay = {"weight_decay": 0.0} if "weight_decay" in optimizers.options(name) else {}
    step(model, optimizers.build({"name": name, **decay}, model, 0.1), 1.0)
    assert torch.equal(model.hidden.weight, before.hidden.weight) and not torch.equal(
        model.hidden.bias, before.hidden.bias
    )


@pytest.mark.parametrize("name", optimizers.names())
def test_a_step_has_the_rate_that_the_groups_have_when_it_is_taken(name: str):
    model, before = TinyModel(), TinyModel()
    optimizer = optimizers.build(name, model, 0.1)
    for group in optimizer.param_groups:  # as a schedule does before each step
        group["lr"] = 0.0
    step(model, optimizer, 1.0)
    assert all(torch.equal(*both) for both in zip(model.parameters(), before.parameters(), strict=True))


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_options_that_nobody_has_set_are_torchs(name: str):
    theirs = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]([nn.Parameter(torch.ones(1))]).defaults
    for option, known in optimizers.options(name).items():
        assert option == "fused" or known.default == theirs[option]


def test_options_of_adafactor_that_nobody_has_set_are_torchs():
    theirs = torch.optim.Adafactor([nn.Parameter(torch.ones(1))]).defaults
    mine = {option: known.default for option, known in optimizers.options("adafactor").items()}
    assert mine == {
        **{"weight_decay": theirs["weight_decay"], "memory": -theirs["beta2_decay"]},
        **{"least_scale": theirs["eps"][1], "threshold": theirs["d"]},
    }


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"name": "adafactor", "memory": -0.1}, "training.optimizer.memory: must be at least 0, got -0.1"),
        ({"name": "adafactor", "least_scale": -1}, "training.optimizer.least_scale: must be at least 0, got -1"),
        ({"name": "muon", "betas": [0.9, 1.0]}, "training.betas: each must be at least 0 and below 1"),
        ({"name": "adam", "eps": -1.0}, "training.eps: must be at least 0, got -1.0"),
    ],
)
def test_options_that_cannot_be_are_refused(choice: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        optimizers.build(choice, TinyModel(), 0.1)


def test_without_a_momentum_descent_keeps_nothing_of_a_weight():
    assert not optimizers.build({"name": "sgd", "momentum": 0.0}, TinyModel(), 0.1).state


def test_only_weights_of_one_type_are_updated_together():
    weights = [torch.zeros(2, dtype=dtype) for dtype in (torch.float32, torch.float64, torch.float32)]
    assert [len(found) for found in group_by_shape(weights)] == [2, 1]


def test_muon_leaves_out_the_map_from_token_vectors_to_states():
    model = create_model("bert-nano", **{"embeddings.width": 8})
    project = model.encoder.embeddings.project
    assert project is not None and id(project.weight) not in {id(p) for p in hidden_matrices(model)}
