"""Claims about LoRA: the change is the paper's, peft reads it, and a user of the run gets a plain model."""

from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from test_resume import Crash, crash_after
from tiny import TinyModel, collate, equal, settings, tensors, train_tiny
from torch import Tensor, nn

from zoo.batches.order import PackedRow
from zoo.examples.example import ExamplePlan
from zoo.models.create import create_model
from zoo.runs.saved import open_run
from zoo.training.validation import Observers, Validation
from zoo.training.weights.adapters import LowRank, adapted_layers, add_adapters, is_adapter_name

RANK, ALPHA = 3, 7.5  # other numbers than the defaults, and not as they lie to each other
LORA = {"rank": RANK, "alpha": ALPHA, "targets": ["hidden"]}
PART = collate([PackedRow(0, (ExamplePlan(i, 0, 6),)) for i in range(3)], 3).inputs


def trained(folder: Path, **values: Any) -> nn.Module:
    return train_tiny(folder, settings(lora=LORA, steps=4, save_every=2, **values))[0]


def said(model: nn.Module) -> Tensor:
    logits: Tensor = model(**PART).scores["language"].logits()
    return logits.detach()


def filled(weights: dict[str, Tensor]) -> TinyModel:
    model = TinyModel(seed=1).eval()
    model.load_state_dict(weights, strict=False)  # a tied one has one name
    return model


def test_only_the_change_is_trained(tmp_path: Path):
    model = trained(tmp_path)
    before, after = TinyModel().state_dict(), open_run(tmp_path).checkpoint.tensors("weights")
    assert all(torch.equal(before[name], tensor) for name, tensor in after.items())
    assert all(module.get_submodule("lora_B").weight.any() for _, module in adapted_layers(model))


def test_a_user_of_the_run_gets_the_trained_model_as_a_plain_one(tmp_path: Path):
    model, saved = trained(tmp_path).eval(), open_run(tmp_path)
    assert not any(map(is_adapter_name, saved.weights))
    torch.testing.assert_close(said(filled(saved.weights)), said(model), rtol=0, atol=1e-6)
    found = saved.checkpoint.tensors("adapter_model")
    down, up = (found[f"base_model.model.hidden.lora_{side}.weight"].double() for side in "AB")
    change = saved.weights["hidden.weight"].double() - TinyModel().hidden.weight.detach().double()
    torch.testing.assert_close(change, ALPHA / RANK * up @ down, rtol=0, atol=1e-7)
    assert change.abs().max() > 0.01
    exact = TinyModel().hidden.weight.detach().double() + ALPHA / RANK * (up @ down)
    assert torch.equal(saved.weights["hidden.weight"], exact.float())  # rounded once


def test_a_validation_judges_what_a_user_of_the_run_gets(tmp_path: Path):
    """The change is in the maps then, and must not be added a second time."""
    seen: list[Tensor] = []

    def measure(model: nn.Module, _: Any) -> dict[str, float]:
        seen.append(said(model))
        return {"loss": 1.0}

    observers = Observers(Validation(measure, "loss"))
    train_tiny(tmp_path, settings(lora=LORA, steps=2, evaluate_every=0), observers=observers)
    torch.testing.assert_close(seen[-1], said(filled(open_run(tmp_path).weights)), rtol=0, atol=1e-6)


def test_how_adapters_begin_follows_the_seed_of_the_training(tmp_path: Path):
    models = [trained(tmp_path / str(n), learning_rate=1e-9, seed=seed) for n, seed in enumerate((0, 0, 1))]
    begun = [model.get_submodule("hidden.lora_A").weight for model in models]
    assert torch.equal(begun[0], begun[1]) and not torch.allclose(begun[0], begun[2], atol=1e-3)


def test_peft_reads_the_adapters_of_a_checkpoint(tmp_path: Path):
    model = trained(tmp_path).eval()
    checkpoint = open_run(tmp_path).checkpoint
    base = filled(checkpoint.tensors("weights"))
    plain = said(base)
    theirs = peft.PeftModel.from_pretrained(base, str(checkpoint.folder)).eval()
    torch.testing.assert_close(said(theirs), said(model), rtol=0, atol=1e-6)
    assert not torch.allclose(plain, said(model), atol=1e-3)


def test_a_resumed_run_is_the_run_that_stopped_to_the_last_bit(tmp_path: Path):
    trained(tmp_path / "straight")
    with pytest.raises(Crash):
        train_tiny(tmp_path / "resumed", settings(lora=LORA, steps=4, save_every=2), observers=crash_after(3))
    train_tiny(tmp_path / "resumed", settings(lora=LORA, steps=4, save_every=2), TinyModel(seed=1), resume=True)
    assert equal(tensors(tmp_path / "straight"), tensors(tmp_path / "resumed"))


def test_a_share_of_what_the_change_reads_is_dropped_in_training_alone():
    """peft's LoRA does so, too; A begins as torch begins a linear map of as many inputs."""
    model, x = TinyModel(), torch.randn(1, 400, 5)
    hidden = model.hidden
    lora = LowRank(rank=RANK, alpha=ALPHA, dropout=0.5, targets=("hidden",))
    add_adapters(model, lora, 0)
    assert lora.config(model)["lora_dropout"] == 0.5
    down, up = (hidden.get_submodule(name).weight.detach() for name in ("lora_A", "lora_B"))
    wide = nn.ModuleDict({"hidden": nn.Linear(100, 4)})  # the tiny model's map is square
    add_adapters(wide, lora, 0)
    assert 0.09 < float(wide.get_submodule("hidden.lora_A").weight.detach().abs().max()) <= 0.1
    torch.nn.init.normal_(hidden.get_submodule("lora_B").weight)
    plain = nn.functional.linear(x, hidden.weight, hidden.bias)
    whole = ALPHA / RANK * x @ down.T @ up.T
    torch.testing.assert_close(hidden.eval()(x) - plain, whole, rtol=0, atol=1e-5)
    torch.manual_seed(1)
    dropped = hidden.train()(x) - plain
    torch.manual_seed(1)
    read = nn.functional.dropout(x, 0.5)
    torch.testing.assert_close(dropped, ALPHA / RANK * read @ down.T @ up.T, rtol=0, atol=1e-5)


def test_heads_are_trained_as_they_are():
    model = create_model("bert-nano")
    add_adapters(model, LowRank(), 0)
    names = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert {name.split(".")[0] for name in names if not is_adapter_name(name)} == {"heads", "pooler"}
    assert len(list(adapted_layers(model))) == 4  # queries and values of two layers
    model = create_model("bert-nano", heads=[{"name": "classification", "labels": 2}])
    add_adapters(model, LowRank(targets=("output",)), 0)  # the head has one that is called so, too
    assert len(list(adapted_layers(model))) == 2 and not any(
        name.startswith("heads") for name, _ in adapted_layers(model)
    )


@pytest.mark.parametrize(
    ("lora", "words"),
    [
        ({"rank": 0}, "training.lora: rank must be at least 1, got 0"),
        ({"dropout": 1.0}, "training.lora.dropout: must be at least 0 and below 1, got 1.0"),
        ({"alpha": 0.0}, "training.lora.alpha: must be a finite number above 0, got 0.0"),
        ({"targets": []}, "training.lora.targets: name at least one linear layer, such as query"),
    ],
)
def test_options_that_cannot_be_are_refused(lora: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        settings(lora=lora)


def test_an_unknown_target_and_what_does_not_combine_are_refused():
    with pytest.raises(ValueError, match=r"lora.targets: unknown linear layer 'qury' \(did you mean 'query'\?\)"):
        add_adapters(create_model("bert-nano"), LowRank(targets=("qury",)), 0)
    with pytest.raises(ValueError, match="training.lora: does not combine with ema, average or strategy fsdp"):
        settings(lora={}, ema=0.9)
