"""Claims about validation: it decides which checkpoint is the run, and judges what is published."""

import logging
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from tiny import TinyModel, alone, lines, settings, train_tiny
from torch import nn

from zoo.models.generation.reordered import ReorderedMatrix, reordered_matrices
from zoo.runs.saved import open_run
from zoo.training.learner import Learner
from zoo.training.logbook import ended_early
from zoo.training.state import State
from zoo.training.supervision import processes
from zoo.training.validation import Observers, Validation, is_better, validate


def judged(*values: float, higher: bool = False) -> Observers:
    """A validation that says these values one after the other."""
    left = list(values)

    def measure(model: nn.Module, _: Callable[[], None]) -> dict[str, float]:
        assert not model.training and not torch.is_grad_enabled()
        return {"score": left.pop(0), "other": 7.0}

    return Observers(Validation(measure, "score", higher))


def test_validation_stands_on_its_step_and_the_best_checkpoint_is_the_run(tmp_path: Path):
    training = settings(steps=6, evaluate_every=2, save_every=0, keep=1)
    model, state = train_tiny(tmp_path, training, observers=judged(0.5, 0.2, float("nan")))
    assert [line.get("validation/score") for line in lines(tmp_path)] == [None, 0.5, None, 0.2, None, None]
    assert lines(tmp_path)[3]["validation/other"] == 7.0
    assert state.best == {"step": 4, "metric": "score", "value": 0.2} and model.training
    assert open_run(tmp_path).step == 4
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["4", "6"]


def test_only_a_better_validation_is_a_reason_to_save(tmp_path: Path):
    observers = judged(0.5, 0.6, 0.4, 0.4, 0.7)
    train_tiny(tmp_path, settings(steps=5, evaluate_every=1, save_every=0, keep=9), observers=observers)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["1", "3", "5"]


@pytest.mark.parametrize(("precision", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)])
def test_validation_computes_in_the_precision_of_the_training(tmp_path: Path, precision: str, dtype: torch.dtype):
    seen = []

    def measure(model: nn.Module, _: Callable[[], None]) -> dict[str, float]:
        seen.append(nn.functional.linear(torch.ones(1, 5), model.hidden.weight).dtype)
        return {"loss": 1.0}

    train_tiny(tmp_path, settings(steps=1, precision=precision), observers=Observers(Validation(measure, "loss")))
    assert seen == [dtype]


def test_more_can_be_better(tmp_path: Path):
    _, state = train_tiny(tmp_path, settings(steps=2, evaluate_every=1), observers=judged(0.2, 0.5, higher=True))
    assert state.best is not None and state.best["step"] == 2


@pytest.mark.parametrize("higher", [True, False])
def test_of_as_good_validations_the_one_with_the_lower_loss_is_the_best(tmp_path: Path, higher: bool):
    left = [(0.0, 3.0), (0.0, 2.0), (0.0, 2.5), (0.0, 2.0), (0.0, 1.0 if higher else 2.4)]

    def measure(model: nn.Module, _: Callable[[], None]) -> dict[str, float]:
        return dict(zip(("score", "loss"), left.pop(0), strict=True))

    training = settings(steps=5, evaluate_every=1, patience=3)
    _, state = train_tiny(tmp_path, training, observers=Observers(Validation(measure, "score", higher)))
    step, loss, stale = (5, 1.0, 0) if higher else (2, 2.0, 3)
    assert state.best == {"step": step, "metric": "score", "value": 0.0, "loss": loss} and state.stale == stale


@pytest.mark.parametrize(("value", "higher"), [(0.7, True), (0.3, False)])
def test_a_device_without_float64_makes_no_validation_better_than_an_equal_one(
    tmp_path: Path, value: float, higher: bool, monkeypatch: pytest.MonkeyPatch
):
    """Rounded to float32, 0.7 is less, and 0.3 is more."""
    monkeypatch.setattr(processes, "widest_dtype", lambda _: torch.float32)
    training = settings(steps=4, evaluate_every=1, patience=2)
    _, state = train_tiny(tmp_path, training, observers=judged(*[value] * 4, higher=higher))
    assert state.best == {"step": 1, "metric": "score", "value": value} and (state.step, state.stale) == (3, 2)


def test_what_another_process_than_the_main_one_measures_is_not_added(monkeypatch: pytest.MonkeyPatch):
    other, told = alone(), list[list[float]]()
    other.is_main = False

    def sum_numbers(self: processes.Processes, mine: list[float]) -> list[float]:
        told.append(mine)
        return [1.0, 0.7, 2.0]

    monkeypatch.setattr(processes.Processes, "sum_numbers", sum_numbers)
    state = State(step=3)
    validate(Learner(TinyModel(), settings(), other), state, Mock(), judged(0.5), False, Mock())
    assert told == [[0.0, 0.0, 0.0]] and state.best == {"step": 3, "metric": "score", "value": 0.7, "loss": 2.0}


def test_a_best_without_a_loss_is_not_beaten_by_as_good_a_one():
    validation = Validation(lambda *_: {}, "score")
    assert not is_better({"value": 0.5, "loss": 1.0}, {"value": 0.5}, validation)
    assert is_better({"value": 0.4, "loss": 1.0}, {"value": 0.5}, validation)
    assert not is_better({"value": 0.5, "loss": float("nan")}, {"value": 0.5, "loss": 2.0}, validation)


def test_training_stops_early_when_nothing_gets_better_and_is_complete_then(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    training = settings(steps=9, evaluate_every=1, patience=2)
    _, state = train_tiny(tmp_path, training, observers=judged(0.5, 0.4, 0.4, 0.6))
    assert (state.step, state.stale, open_run(tmp_path).step) == (4, 2, 2)
    why = "after 2 validations without improvement (training.patience)"
    assert f"step 4 of 9 is the last one, {why}" in caplog.text
    logged = (tmp_path / "metrics.jsonl").read_bytes()
    _, state = train_tiny(tmp_path, training, observers=judged(), resume=True)
    assert f"already complete: 4 of 9 steps, {why}" in caplog.text
    assert (state.step, state.stale) == (4, 2) and (tmp_path / "metrics.jsonl").read_bytes() == logged
    state.step = 9
    assert ended_early(state, training) == ""  # of a run that took all steps, whatever its last validations found


@pytest.mark.parametrize(("values", "best"), [((0.5, float("nan"), float("nan"), 0.1), 1), ((float("nan"), 0.5), 2)])
def test_a_validation_that_is_no_number_is_no_better_one(tmp_path: Path, values: tuple[float, ...], best: int):
    training = settings(steps=best + 2 if best == 1 else 2, evaluate_every=1, patience=2)
    _, state = train_tiny(tmp_path, training, observers=judged(*values))
    assert state.best == {"step": best, "metric": "score", "value": 0.5} and state.stale == state.step - best


def test_what_is_validated_is_what_is_published(tmp_path: Path):
    seen = {}

    def measure(model: nn.Module, _: Callable[[], None]) -> dict[str, float]:
        seen["weights"] = {name: p.detach().clone() for name, p in model.named_parameters()}
        return {"loss": 1.0}

    for name, values in {"ema": {"ema": 0.5}, "average": {"average": 3, "save_every": 2}}.items():
        training = settings(steps=6, evaluate_every=0, **values)
        model, _ = train_tiny(tmp_path / name, training, observers=Observers(Validation(measure, "loss")))
        assert name in open_run(tmp_path / name).checkpoint.kinds
        published = open_run(tmp_path / name).weights
        assert all(torch.equal(tensor, seen["weights"][key]) for key, tensor in published.items())
        assert not torch.equal(published["hidden.weight"], model.hidden.weight)


def test_the_average_is_over_the_last_checkpoints(tmp_path: Path):
    train_tiny(tmp_path, settings(steps=6, average=3, save_every=2, keep=1))
    saved = [open_run(tmp_path / "checkpoints" / step).checkpoint.tensors("weights") for step in ("2", "4", "6")]
    mean = torch.stack([weights["hidden.bias"] for weights in saved]).mean(0)
    torch.testing.assert_close(open_run(tmp_path).weights["hidden.bias"], mean)


def test_an_average_is_over_weights_and_not_over_the_average_of_a_shorter_run(tmp_path: Path):
    for steps in (2, 3):
        training = settings(steps=steps, average=2, save_every=1, evaluate_every=0)
        train_tiny(tmp_path, training, resume=steps == 3)
    saved = [open_run(tmp_path / "checkpoints" / step).checkpoint for step in ("2", "3")]
    assert all("average" in checkpoint.kinds for checkpoint in saved)
    mean = torch.stack([checkpoint.tensors("weights")["hidden.bias"] for checkpoint in saved]).mean(0)
    torch.testing.assert_close(open_run(tmp_path).weights["hidden.bias"], mean)


def test_what_was_averaged_is_said_and_what_was_not_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    train_tiny(tmp_path, settings(steps=4, save_every=1, keep=1, evaluate_every=0))
    with caplog.at_level(logging.INFO, "zoo"):
        train_tiny(tmp_path, settings(steps=6, average=4, save_every=1, keep=1, evaluate_every=0), resume=True)
    *_, told = [record for record in caplog.records if "averaged" in record.message]
    few = "; only 3 of training.average=4 were kept"
    assert (told.message, told.levelname) == (f"averaged: the weights of steps 4, 5, 6{few}", "WARNING")
    with caplog.at_level(logging.INFO, "zoo"):
        train_tiny(tmp_path, settings(steps=8, average=3, save_every=1, keep=1, evaluate_every=0), resume=True)
    *_, told = [record for record in caplog.records if "averaged" in record.message]
    assert (told.message, told.levelname) == ("averaged: the weights of steps 6, 7, 8", "INFO")


def test_what_a_validation_laid_out_to_write_is_dropped(tmp_path: Path) -> None:
    weights = []

    def measure(model: nn.Module, _: Callable[[], None]) -> dict[str, float]:
        weights.extend(model.parameters())
        reordered_matrices[weights[-1]] = ReorderedMatrix(torch.ones(1), [])
        return {"loss": 1.0}

    train_tiny(tmp_path, settings(steps=1, evaluate_every=1), observers=Observers(Validation(measure, "loss")))
    assert len(weights) and not len(reordered_matrices)
