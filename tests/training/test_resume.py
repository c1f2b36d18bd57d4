"""Claims about stopping and resuming: the run goes on as if nothing had happened, to the last bit."""

import logging
import math
import signal
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tiny import TinyFeed, TinyModel, equal, lines, losses, settings, tensors, train_tiny
from torch import Tensor

from zoo.runs.checkpoint import steps
from zoo.runs.saved import open_run
from zoo.training.spikes import RunningLoss
from zoo.training.state import State, resume
from zoo.training.supervision.stopping import Stopped
from zoo.training.validation import Observers, Validation


class Crash(Exception):
    """Stands for a process that dies."""


def crash_after(step: int) -> Observers:
    def report(line: dict[str, Any]) -> None:
        if line["step"] == step:
            raise Crash

    return Observers(report=report)


def test_a_resumed_state_is_the_one_that_was_saved():
    best, line = {"step": 2, "metric": "loss", "value": 0.5}, {"step": 3, "loss": 1.0}
    state = State(3, {"row": 1}, best, 1, 2, {"scale": 2.0}, RunningLoss(1.5, 0.5, 3), 4, line, True)
    assert all(getattr(state, field.name) != getattr(State(), field.name) for field in fields(State))
    run = Mock(checkpoint=Mock(state=asdict(state), folder=Path("3")))
    assert resume(run, Mock()) == state


TIMINGS = ("tokens_per_second", "mfu", "seconds")
SIX = {"steps": 6, "save_every": 3, "ema": 0.9, "micro_batch": 2, "schedule": "cosine", "warmup_steps": 2}


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six steps at once, with dropout."""
    folder = tmp_path_factory.mktemp("straight") / "run"
    train_tiny(folder, settings(**SIX), TinyModel(dropout=0.5))
    return folder


def untimed(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key not in TIMINGS} for line in found]


def test_a_resumed_run_is_the_run_that_stopped_to_the_last_bit(straight: Path, tmp_path: Path):
    training = settings(**SIX)
    with pytest.raises(Crash):
        train_tiny(tmp_path, training, TinyModel(dropout=0.5), observers=crash_after(4))
    train_tiny(tmp_path, training, TinyModel(dropout=0.5, seed=1), resume=True)
    assert equal(tensors(straight), tensors(tmp_path))
    assert losses(straight) == losses(tmp_path)
    assert open_run(straight).checkpoint.state == open_run(tmp_path).checkpoint.state


def test_a_finished_run_is_left_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    train_tiny(tmp_path, settings(steps=2))
    before = tensors(tmp_path)
    train_tiny(tmp_path, settings(steps=2), resume=True)
    assert "already complete: 2 of 2 steps" in caplog.text and equal(before, tensors(tmp_path))
    assert "no effect" not in caplog.text
    written = (tmp_path / "training.yaml").read_bytes()
    train_tiny(tmp_path, settings(steps=1), resume=True)
    assert (tmp_path / "training.yaml").read_bytes() == written, "the next --resume would stop at step 1"
    said = "no step was left to train, so settings changed since the last one have no effect"
    assert "already complete: 2 of 1 steps" in caplog.text and said in caplog.text


def test_a_run_can_be_made_longer(tmp_path: Path):
    train_tiny(tmp_path, settings(steps=2))
    _, state = train_tiny(tmp_path, settings(steps=5), resume=True)
    assert state.step == 5 and [line["step"] for line in lines(tmp_path)] == [1, 2, 3, 4, 5]


@pytest.mark.usefixtures("heeded_hangup")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_finishes_the_step_and_saves(straight: Path, tmp_path: Path, number: signal.Signals):
    training = settings(**SIX)

    def report(line: dict[str, Any]) -> None:
        if line["step"] == 3:
            signal.raise_signal(number)

    with pytest.raises(Stopped) as stopped:
        train_tiny(tmp_path, training, TinyModel(dropout=0.5), observers=Observers(report=report))
    assert stopped.value.status == 128 + number
    assert open_run(tmp_path).step == 4
    train_tiny(tmp_path, training, TinyModel(dropout=0.5), resume=True)
    assert equal(tensors(straight), tensors(tmp_path))


def test_a_signal_in_the_last_step_of_a_run_leaves_it_complete(tmp_path: Path):
    observers = Observers(report=lambda line: line["step"] == 2 and signal.raise_signal(signal.SIGTERM))
    _, state = train_tiny(tmp_path, settings(steps=3), observers=observers)
    assert state.step == 3 and not open_run(tmp_path).checkpoint.state["passing"]


def test_a_signal_in_a_step_that_validates_leaves_out_no_validation(tmp_path: Path):
    training = settings(**SIX, evaluate_every=2)
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"

    observers = Observers(Validation(lambda model, _: {"loss": float(model.embedding.weight.sum())}, "loss"))
    begun = iter(range(1, 7))

    def stop_in_step_4() -> None:
        if next(begun) == 4:
            signal.raise_signal(signal.SIGTERM)

    train_tiny(straight, training, observers=observers)
    with pytest.raises(Stopped):
        train_tiny(stopped, training, observers=observers, alive=stop_in_step_4)
    train_tiny(stopped, training, resume=True, observers=observers)
    assert [line.get("validation/loss") for line in lines(straight)] == [
        line.get("validation/loss") for line in lines(stopped)
    ]
    assert open_run(straight).checkpoint.state == open_run(stopped).checkpoint.state


def weighed(signal_at: int = 0) -> Observers:
    """Five batches of a validation that sees the weights; in the third of one step, a signal comes."""
    asked: list[int] = []

    def measure(model: TinyModel, between: Callable[[], None]) -> dict[str, float]:
        asked.append(0)
        for batch in range(5):
            between()
            asked[-1] += 1
            if batch == 2 and len(asked) == signal_at:
                signal.raise_signal(signal.SIGTERM)
        return {"loss": -float(model.embedding.weight.detach().norm())}

    return Observers(Validation(measure, "loss"))


@pytest.mark.parametrize(("signal_at", "kept"), [(1, {"ema": 0.9}), (2, {"average": 2}), (3, {"average": 2})])
def test_a_validation_that_a_signal_ends_is_repeated_whole(tmp_path: Path, signal_at: int, kept: dict[str, Any]):
    # the first improves, the second is at a step that is not saved otherwise, the third ends the run
    own = {"evaluate_every": 2, "save_every": 3, "steps": 5, "micro_batch": 2}
    training = settings(**own, **kept)
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    train_tiny(straight, training, observers=weighed())
    with pytest.raises(Stopped, match="SIGTERM in the validation after step [245]; the state is saved, --resume"):
        train_tiny(stopped, training, observers=weighed(signal_at))
    assert len(lines(stopped)) == steps(stopped / "checkpoints")[0] - 1, "its step is logged when it was validated"
    train_tiny(stopped, training, resume=True, observers=weighed())
    assert untimed(lines(straight)) == untimed(lines(stopped))
    assert steps(straight / "checkpoints") == steps(stopped / "checkpoints")
    one, other = straight / "checkpoints" / "5", stopped / "checkpoints" / "5"
    assert open_run(one).checkpoint.state == open_run(other).checkpoint.state
    assert equal(tensors(one), tensors(other))


def test_a_signal_before_a_validation_does_not_wait_for_it(tmp_path: Path):
    def never(model: TinyModel, between: Callable[[], None]) -> dict[str, float]:
        between()
        raise AssertionError("it went on")

    def interrupt() -> None:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(Stopped, match="SIGINT in the validation after step 1"):
        train_tiny(
            tmp_path, settings(**SIX, evaluate_every=1), observers=Observers(Validation(never, "loss")), alive=interrupt
        )


def test_a_line_with_nan_waits_for_its_validation_too(tmp_path: Path):
    class Nan(TinyModel):
        def forward(self, tokens: Tensor, documents: Tensor) -> Any:
            said = super().forward(tokens, documents)
            said.scores["language"].states = said.scores["language"].states * math.nan
            return said

    reported: list[dict[str, Any]] = []
    training = settings(steps=1)
    with pytest.raises(Stopped):
        train_tiny(tmp_path, training, Nan(), observers=weighed(1))
    observers = Observers(weighed().validation, reported.append)
    train_tiny(tmp_path, training, Nan(), resume=True, observers=observers)
    assert math.isnan(reported[0]["loss"]) and lines(tmp_path)[0]["loss"] is None


def test_a_checkpoint_that_a_signal_asked_for_goes_with_the_next_and_is_in_no_average(tmp_path: Path):
    training = settings(steps=6, average=3, save_every=2, keep=1, evaluate_every=0)
    train_tiny(tmp_path / "straight", training)
    for step in (3, 5):
        observers = Observers(
            report=lambda line, step=step: line["step"] == step - 1 and signal.raise_signal(signal.SIGTERM)
        )
        with pytest.raises(Stopped, match=f"SIGTERM after step {step}; the state is saved"):
            train_tiny(tmp_path / "stopped", training, resume=step == 5, observers=observers)
        assert steps(tmp_path / "stopped" / "checkpoints")[0] == step
    train_tiny(tmp_path / "stopped", training, resume=True)
    assert steps(tmp_path / "straight" / "checkpoints") == steps(tmp_path / "stopped" / "checkpoints") == [6, 4, 2]
    assert equal(tensors(tmp_path / "straight"), tensors(tmp_path / "stopped"))


def test_another_micro_batch_sees_the_same_examples(tmp_path: Path):
    train_tiny(tmp_path / "one", settings(steps=6, micro_batch=2))
    train_tiny(tmp_path / "two", settings(steps=3, micro_batch=2))
    train_tiny(tmp_path / "two", settings(steps=6, micro_batch=5), resume=True)
    one, two = (open_run(tmp_path / name).checkpoint.state["position"] for name in ("one", "two"))
    assert one == two and one["seen"]
    assert losses(tmp_path / "one") == pytest.approx(losses(tmp_path / "two"), rel=1e-5)


def test_other_examples_are_told_apart(tmp_path: Path):
    train_tiny(tmp_path / "one", settings(steps=3, batch=4))
    train_tiny(tmp_path / "two", settings(steps=3, batch=5))
    train_tiny(tmp_path / "three", settings(steps=6, batch=2))
    one, two, three = (open_run(tmp_path / name).checkpoint.state["position"] for name in ("one", "two", "three"))
    assert one["seen"] != two["seen"] and one == three, "the hash is of the examples, not of the steps"


def test_resuming_takes_no_longer_further_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    train_tiny(tmp_path, settings(steps=2))
    taken: list[int] = []
    take = TinyFeed.take
    monkeypatch.setattr(TinyFeed, "take", lambda self, n: taken.append(self.cursor[1:3]) or take(self, n))
    train_tiny(tmp_path, settings(steps=3), resume=True)
    assert taken == [(1, 3)], "no row before the position is made again"
