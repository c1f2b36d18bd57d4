"""Claims about training the models themselves on packed rows: all terms are logged, and no setting changes a loss."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_resume import Crash, crash_after
from tiny import alone, begin, equal, lines, losses, settings, tensors

from zoo.batches.feed import Feed
from zoo.batches.order import Examples
from zoo.batches.packing import RowShape
from zoo.blocks.feed_forward import MLP
from zoo.data.ids import Lengths, Roles
from zoo.devices import large_products
from zoo.examples.form import ModelTraits
from zoo.models.create import create_model
from zoo.objectives.mixture import Mixture
from zoo.training.loop import train
from zoo.training.settings import MAY_CHANGE
from zoo.training.validation import Observers

ROLES = Roles(vocab_size=50, pad=0, unk=1, start=2, end=3, separator=4, extract=5, mask=6)
NANO = {"gpt2-nano": "causal_lm", "bert-nano": {"masked_lm": {}, "next_sentence": {}}}


def examples(name: str) -> Examples:
    """Twenty documents of a few sentences each."""
    generator = np.random.default_rng(5)
    counts = generator.integers(2, 5, size=20)
    sizes = generator.integers(2, 6, size=counts.sum())
    units, sentences = np.cumsum([0, *sizes]), np.cumsum([0, *counts])
    ids = generator.integers(7, 50, size=units[-1])
    bert = name == "bert-nano"
    lengths = Lengths({"text": units}, sentences) if bert else Lengths({"text": units[sentences]})
    mixture = Mixture.parse(NANO[name])
    form = mixture.form(["text"], ModelTraits(causal=not bert, segments=bert))
    return Examples(
        form, mixture, lengths, lambda piece: ids[piece.start : piece.stop], ROLES, RowShape(32, longest=20)
    )


def train_nano(
    folder: Path,
    name: str,
    dropout: float = 0.0,
    resume: bool = False,
    observers: Observers | None = None,
    **values: Any,
) -> None:
    given = examples(name)
    training = settings(**{"steps": 4, "batch": 3, "learning_rate": 1e-2, "save_every": 2, **values})
    model = create_model(name, vocab_size=50, dropout=dropout)
    with begin(folder, resume, training) as run:
        train(model, Feed(given), given.mixture, training, run, alone(), observers or Observers())


SLOW = {
    "chunked_loss": False,
    "skip_unread": False,
    "byte_dropout": False,
    "fast_layers": False,
    "keep_memory": False,
    "pin_memory": False,
    "optimizer": {"name": "adamw", "fused": False},
}


@pytest.mark.parametrize("name", NANO)
def test_with_the_fast_settings_turned_off_the_losses_are_the_same(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    train_nano(tmp_path / "fast", name)
    monkeypatch.delattr("zoo.models.heads.cross_entropy.LinearCrossEntropy.forward")
    train_nano(tmp_path / "slow", name, attention_backend="eager", **SLOW)
    assert losses(tmp_path / "slow") == pytest.approx(losses(tmp_path / "fast"), rel=1e-5)


def test_without_fast_layers_no_gradient_is_laid_out_and_the_losses_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name, value in {"LARGE_WEIGHT": 1, "MANY_ROWS": 1, "has_amx": lambda: True}.items():
        monkeypatch.setattr(large_products, name, value)
    train_nano(tmp_path / "fast", "gpt2-nano", precision="bfloat16")
    monkeypatch.delattr("zoo.blocks.projections.LargeLinear.forward")
    with pytest.raises(NotImplementedError):
        train_nano(tmp_path / "none", "gpt2-nano", precision="bfloat16")
    train_nano(tmp_path / "slow", "gpt2-nano", precision="bfloat16", fast_layers=False)
    assert losses(tmp_path / "slow") == pytest.approx(losses(tmp_path / "fast"), rel=1e-3)


def test_what_draws_dropout_in_another_way_is_told_of_when_a_run_is_resumed(tmp_path: Path):
    train_nano(tmp_path / "run", "bert-nano", dropout=0.5, steps=3)
    other = {"skip_unread": False, "byte_dropout": False, "chunked_loss": False, "checkpointing": True}
    for key, value in other.items():
        train_nano(tmp_path / key, "bert-nano", dropout=0.5, steps=3, **{key: value})
        differs = losses(tmp_path / key) != pytest.approx(losses(tmp_path / "run"), rel=1e-5)
        assert differs == ("drawn differently" in MAY_CHANGE[key]), key


def test_both_losses_and_the_accuracy_of_next_sentence_are_logged_apart(tmp_path: Path):
    train_nano(tmp_path, "bert-nano")
    for line in lines(tmp_path):
        assert line["loss"] == pytest.approx(line["loss/masked_lm"] + line["loss/next_sentence"])
        assert 0 <= line["next_sentence/accuracy"] <= 1


@pytest.mark.parametrize("name", NANO)
def test_checkpointed_activations_are_computed_twice_and_change_no_loss(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    computed, forward = [0], MLP.forward

    def counted(mlp: MLP, x: torch.Tensor) -> torch.Tensor:
        computed[-1] += 1
        return forward(mlp, x)

    monkeypatch.setattr(MLP, "forward", counted)
    train_nano(tmp_path / "kept", name, checkpointing=False)
    computed.append(0)
    train_nano(tmp_path / "again", name, checkpointing=True)
    assert losses(tmp_path / "again") == losses(tmp_path / "kept") and computed[1] == 2 * computed[0] > 0


@pytest.mark.parametrize("name", NANO)
def test_a_resumed_model_is_the_same_to_the_last_bit(tmp_path: Path, name: str):
    train_nano(tmp_path / "straight", name, 0.2)
    with pytest.raises(Crash):
        train_nano(tmp_path / "resumed", name, 0.2, observers=crash_after(3))
    torch.rand(3)
    train_nano(tmp_path / "resumed", name, 0.2, resume=True)
    assert equal(tensors(tmp_path / "straight"), tensors(tmp_path / "resumed"))
    assert losses(tmp_path / "straight") == losses(tmp_path / "resumed")


def test_frozen_parameters_stay_have_no_state_and_are_frozen_after_a_resume(tmp_path: Path):
    given = {"freeze": ["embeddings", "decoder:1", "*.norms"], "weight_decay": 0.5, "ema": 0.9}
    train_nano(tmp_path / "straight", "gpt2-nano", checkpointing=True, **given)
    train_nano(tmp_path / "resumed", "gpt2-nano", steps=2, **given)
    train_nano(tmp_path / "resumed", "gpt2-nano", resume=True, **given)
    found, first = tensors(tmp_path / "straight"), create_model("gpt2-nano", vocab_size=50, dropout=0.0).state_dict()
    assert equal(found, tensors(tmp_path / "resumed"))
    moved = {key for key, weight in first.items() if not torch.equal(found[f"weights/{key}"], weight)}
    with_state = {key.split("/")[2] for key in found if key.startswith("optimizer/")}
    still = ("decoder.stack.embeddings", "decoder.stack.positions", "decoder.stack.blocks.0")
    expected = {key for key in first if not key.startswith(still) and ".norms." not in key}
    assert moved == with_state == expected


def test_layers_move_by_their_share_of_the_rate(tmp_path: Path):
    given = {"steps": 1, "optimizer": {"name": "sgd", "momentum": 0.0}, "clip": None, "learning_rate": 10.0}
    train_nano(tmp_path / "alike", "gpt2-nano", **given)
    train_nano(tmp_path / "by_depth", "gpt2-nano", layer_decay=0.5, **given)
    first = create_model("gpt2-nano", vocab_size=50, dropout=0.0).state_dict()
    alike, by_depth = tensors(tmp_path / "alike"), tensors(tmp_path / "by_depth")
    for start, share in {"embeddings": 1 / 8, "blocks.0": 1 / 4, "blocks.1": 1 / 2, "norm": 1.0}.items():
        for key in (key for key in first if key.startswith(f"decoder.stack.{start}.")):
            moved, whole = (run[f"weights/{key}"] - first[key] for run in (by_depth, alike))
            torch.testing.assert_close(moved, whole * share, rtol=0.0, atol=1e-6)
            assert key.endswith("key.bias") or whole.abs().max() > 1e-4
