"""Claims about the loop: exact for any split, exact after a stop, and never fooled by a number that is none."""

import logging
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from accelerate import Accelerator
from tiny import GOAL, TinyFeed, TinyModel, alone, begin, collate, lines, losses, settings, train_tiny, unwatched
from torch.nn import functional

from zoo.models.create import create_model
from zoo.objectives.objective import Term
from zoo.runs.saved import open_run
from zoo.training import learner
from zoo.training.logbook import enforce_skip_limit
from zoo.training.loop import train
from zoo.training.meter import Speed, measure_peak
from zoo.training.state import State
from zoo.training.step import weigh
from zoo.training.supervision.processes import Processes
from zoo.training.validation import Observers


def test_every_step_is_logged_and_the_loss_falls(tmp_path: Path):
    _, state = train_tiny(tmp_path, settings(), observers=Observers(flops_per_token=100.0))
    found = lines(tmp_path)
    assert [line["step"] for line in found] == list(range(1, 11)) and state.step == 10
    keys = {"step", "loss", "loss/causal_lm", "learning_rate", "gradient_norm", "tokens_per_second", "empty", "seconds"}
    assert keys <= found[0].keys() and found[0]["mfu"] > 0
    assert found[-1]["loss"] < 0.7 * found[0]["loss"]


def test_no_step_uses_more_of_the_device_than_there_is():
    fast, slow = ((40, 2.0), (40, 4.0))
    measured, given = (Speed(flops=3.0, peak=15.0, measured=how) for how in (True, False))
    assert [measured.line(*step)["mfu"] for step in (slow, fast, slow)] == [1.0, 1.0, 0.5]
    assert [given.line(*step)["mfu"] for step in (slow, fast, slow)] == [2.0, 4.0, 2.0]


def test_a_clock_that_stands_still_leaves_the_speed_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("time.perf_counter", lambda: 1.0)
    measure_peak.cache_clear()
    train_tiny(tmp_path, settings(steps=2), observers=Observers(flops_per_token=100.0))
    measure_peak.cache_clear()
    speeds = [(line["tokens_per_second"], line["mfu"]) for line in lines(tmp_path)]
    assert speeds == [(None, None), (None, None)]


def test_a_step_is_the_gradient_of_the_mean_over_all_tokens_of_the_batch(tmp_path: Path):
    trained, _ = train_tiny(tmp_path, settings(steps=1, micro_batch=2, learning_rate=0.01, clip=None))
    model = TinyModel()
    part = collate(TinyFeed().take(5), 5)
    logits = model(**part.inputs).scores["language"].logits()
    functional.cross_entropy(logits.flatten(0, 1), part.targets["causal_lm"].flatten(), ignore_index=-1).backward()
    norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
    assert lines(tmp_path)[0]["gradient_norm"] == pytest.approx(norm.item(), rel=1e-5)
    torch.testing.assert_close(trained.hidden.bias, model.hidden.bias - 0.01 * model.hidden.bias.grad.sign())


def test_micro_batches_change_no_loss(tmp_path: Path):
    for micro_batch in (None, 1, 2, 3):
        train_tiny(tmp_path / str(micro_batch), settings(micro_batch=micro_batch))
    for micro_batch in (1, 2, 3):
        assert losses(tmp_path / str(micro_batch)) == pytest.approx(losses(tmp_path / "None"), abs=1e-5)


def test_what_is_dropped_follows_the_seed(tmp_path: Path):
    """The rows are the same here whatever the seed."""
    for number, seed in enumerate((0, 0, 1)):
        train_tiny(tmp_path / str(number), settings(steps=2, seed=seed), TinyModel(dropout=0.5))
    assert losses(tmp_path / "0") == losses(tmp_path / "1") != losses(tmp_path / "2")


def test_dropout_is_drawn_anew_in_each_step(tmp_path: Path):
    model, seeds = TinyModel(dropout=0.5), list[int]()
    model.register_forward_pre_hook(lambda *_: seeds.append(torch.initial_seed()))
    train_tiny(tmp_path, settings(steps=3, micro_batch=3), model)
    assert seeds[::2] == seeds[1::2] and len(set(seeds)) == 3


def test_empty_slots_are_counted_with_the_rows_that_fill_up(tmp_path: Path):
    train_tiny(tmp_path, settings(steps=1, micro_batch=3))
    used = collate(TinyFeed().take(5), 5).tokens
    assert lines(tmp_path)[0]["empty"] == pytest.approx(1 - used / (6 * 6))


class TwoTerms:
    """The first term as it is, and one that scores a position every other step."""

    def __init__(self) -> None:
        self.calls, self.model_arguments = 0, GOAL.model_arguments

    def final_targets(self, targets: Any, read: Any) -> Any:
        return targets

    def counts(self, targets: Any) -> dict[str, torch.Tensor]:
        self.calls += 1
        return {**GOAL.counts(targets), "rare": torch.tensor(2 * (self.calls % 2))}

    def terms(self, scores: Any, targets: Any, weights: Any) -> dict[str, Term]:
        rare = scores["language"].logits()[0, 0, 0] * (self.calls % 2)
        right = {"right": (torch.tensor(1.0), torch.tensor(4 * (self.calls % 2)))}
        return {**GOAL.terms(scores, targets), "rare": Term(rare, torch.tensor(0), 0.5, measured=right)}


def test_a_term_without_places_adds_nothing_and_is_left_out(tmp_path: Path):
    with begin(tmp_path) as run:
        train(TinyModel(), TinyFeed(), TwoTerms(), settings(steps=2), run, alone())
    first, second = lines(tmp_path)
    assert first["loss"] == pytest.approx(first["loss/causal_lm"] + 0.5 * first["loss/rare"])
    assert first["rare/right"] == 0.25
    assert second["loss"] == second["loss/causal_lm"] and not {"loss/rare", "rare/right"} & second.keys()


def test_settings_that_allow_it_clip_the_gradient(tmp_path: Path):
    clipped, _ = train_tiny(tmp_path / "a", settings(steps=1, clip=1e-3, eps=1.0))
    free, _ = train_tiny(tmp_path / "b", settings(steps=1, clip=None, eps=1.0))
    assert lines(tmp_path / "a")[0]["gradient_norm"] == lines(tmp_path / "b")[0]["gradient_norm"] > 0.1
    before = TinyModel().hidden.weight
    assert (clipped.hidden.weight - before).norm() < 0.1 * (free.hidden.weight - before).norm()


class Spoiled(TinyModel):
    """Says NaN, in the loss or in a gradient alone, from the step that begins at a given row on."""

    def __init__(self, where: str, times: int) -> None:
        super().__init__()
        self.where, self.times = where, times

    def forward(self, tokens: torch.Tensor, documents: torch.Tensor) -> Any:
        said = super().forward(tokens, documents)
        self.times -= 1
        scores = said.scores["language"]
        if self.times >= 0 and self.where == "loss":
            scores.states = scores.states * torch.nan
        if self.times >= 0 and self.where == "gradient":
            scores.states.register_hook(lambda gradient: gradient * torch.inf)
        return said


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_step_that_is_not_finite_changes_nothing_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, where: str
):
    caplog.set_level(logging.INFO)
    model, state = train_tiny(tmp_path, settings(steps=1, ema=0.5), Spoiled(where, 1))
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), TinyModel().parameters(), strict=True))
    assert lines(tmp_path)[0]["loss" if where == "loss" else "gradient_norm"] is None
    assert "update skipped; examples (epoch, document, number): [(0, 0, 0), (0, 1, 0)" in caplog.text
    assert ("step 1 of 1: loss nan" if where == "loss" else "gradient_norm ") in caplog.text
    assert state.skipped == 1


def test_a_bad_step_moves_no_average():
    made = learner.Learner(TinyModel(), settings(steps=10, ema=0.5), alone())
    assert made.moving_average is not None
    before = {name: weights.clone() for name, weights in made.moving_average.weights.items()}
    with torch.no_grad():
        made.model.hidden.weight += 1
    made.update(0, torch.tensor(1.0))
    assert all(torch.equal(made.moving_average.weights[name], weights) for name, weights in before.items())


def test_training_goes_on_after_a_bad_step_and_gives_up_after_several(tmp_path: Path):
    _, state = train_tiny(tmp_path / "one", settings(steps=4, skip_limit=2), Spoiled("loss", 1))
    assert state.skipped == 0
    with pytest.raises(RuntimeError, match="step 2: the loss or a gradient was not finite in 2 consecutive steps"):
        train_tiny(tmp_path / "two", settings(steps=4, skip_limit=2, save_every=0), Spoiled("loss", 2))
    assert not list((tmp_path / "two").glob("checkpoints/*"))


def test_a_run_that_gives_up_names_the_last_checkpoint_from_before_its_bad_steps():
    run: Any = Mock(undamaged_checkpoints=lambda: (Mock(step=n, folder=f"run/{n}") for n in (6, 5, 4, 3)))
    with pytest.raises(
        RuntimeError, match="step 7: .* in 3 consecutive steps .*; the last checkpoint before that is run/4."
    ):
        enforce_skip_limit({"step": 7}, State(step=7, skipped=3), Mock(settings=settings(skip_limit=3)), run)
    enforce_skip_limit({"step": 7}, State(step=7, skipped=2), Mock(settings=settings(skip_limit=3)), run)


@pytest.mark.parametrize(("count", "loss"), [(0.25, 4.0), (4.0, 0.25), (0.0, 1.0)])
def test_a_term_is_divided_by_its_count_however_small(count: float, loss: float):
    """Where tokens have weights, it may be below 1."""
    term = Term(torch.tensor(2.0), torch.tensor(0), 0.5)
    assert weigh({"a": term}, {"a": torch.tensor(count)}) == loss
    other = Term(torch.tensor(9.0), torch.tensor(0), 1.0)
    assert weigh({"a": term, "b": other}, {"a": torch.tensor(count), "b": torch.tensor(3.0)}) == loss + 3.0


def test_each_layer_has_its_share_of_the_rate():
    made = learner.Learner(create_model("gpt2-nano"), settings(steps=10, layer_decay=0.5), alone())
    rate = made.update(3, torch.tensor(0.0))
    found = {group["share"]: group["lr"] for group in made.optimizer.param_groups}
    assert found == {share: rate * share for share in (1.0, 0.5, 0.25, 0.125)} and rate > 0


def test_bfloat16_computes_forward_and_keeps_weights_in_float32(tmp_path: Path):
    model, _ = train_tiny(tmp_path, settings(precision="bfloat16"))
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert losses(tmp_path)[-1] < 0.8 * losses(tmp_path)[0]


def test_the_scale_of_a_loss_in_float16_is_not_in_its_gradient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    train_tiny(tmp_path / "wide", settings(steps=1))
    monkeypatch.setattr(learner, "forward_dtype", lambda *_: torch.float16)  # which a CPU's user is refused
    train_tiny(tmp_path / "narrow", settings(steps=1))
    (wide,), (narrow,) = lines(tmp_path / "wide"), lines(tmp_path / "narrow")
    for key in ("loss", "gradient_norm"):
        assert narrow[key] == pytest.approx(wide[key], rel=1e-2)


def test_a_gradient_too_large_for_float16_is_no_fault_of_the_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(learner, "forward_dtype", lambda *_: torch.float16)
    train_tiny(tmp_path, settings(steps=2), Spoiled("gradient", 1))
    assert "step 1: a gradient is too large for float16: update skipped, loss scale halved" in caplog.text
    assert "examples (" not in caplog.text


def test_a_resumed_run_goes_on_with_the_scale_of_float16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(learner, "forward_dtype", lambda *_: torch.float16)
    found = []
    for steps in (1, 2):
        train_tiny(tmp_path, settings(steps=steps), Spoiled("loss", 2 - steps), resume=steps > 1)
        found.append(open_run(tmp_path).checkpoint.state["scale"]["scale"])
    assert found == [2.0**15, 2.0**15]  # half of what it begins with, after a bad step


def test_trackers_get_numbers_inside_the_run_folder(tmp_path: Path):
    training = settings(steps=2, trackers=["tensorboard"])
    accelerator = Accelerator(cpu=True, mixed_precision="no", log_with=["tensorboard"], project_dir=str(tmp_path))
    with begin(tmp_path, training=training) as run:
        train(TinyModel(), TinyFeed(), GOAL, training, run, Processes(accelerator, unwatched))
    for tracker in accelerator.trackers:
        tracker.finish()
    assert list((tmp_path / "trackers").glob("events*"))
    with begin(tmp_path, resume=True, training=training) as run:
        assert run.checkpoint is not None


def test_every_step_has_the_learning_rate_of_its_number_also_after_a_stop(tmp_path: Path):
    chosen = {"schedule": {"name": "linear", "floor": 0.1}, "warmup_steps": 3}
    train_tiny(tmp_path, settings(steps=4, **chosen))
    train_tiny(tmp_path, settings(steps=8, **chosen), resume=True)
    # 3 steps of warm-up to the peak, then a straight line to a tenth of it at the last step
    first = [0.05 / 3, 0.1 / 3, 0.05, 0.005]
    then = [0.05 * (0.1 + 0.9 * (8 - n) / 5) for n in (5, 6, 7, 8)]
    assert [line["learning_rate"] for line in lines(tmp_path)] == pytest.approx([*first, *then])


def test_the_learning_rate_of_a_step_is_what_changes_the_weights(tmp_path: Path):
    def weights(name: str, steps: int) -> torch.Tensor:
        # without momentum, the first update of Adam moves each weight by the learning rate
        options = {"optimizer": {"name": "adam", "betas": [0.0, 0.0], "eps": 0.0}, "clip": None}
        training = settings(steps=steps, schedule="linear", warmup_steps=1, **options)
        return train_tiny(tmp_path / name, training)[0].hidden.weight.detach()

    before, after = TinyModel().hidden.weight.detach(), weights("one", 1)
    moved = (after - before).abs()
    torch.testing.assert_close(moved[moved > 0], torch.full_like(moved[moved > 0], 0.05))


def test_the_moving_average_counts_updates_from_one(tmp_path: Path):
    training = settings(steps=3, ema=0.9, save_every=1, keep=9, evaluate_every=0)
    train_tiny(tmp_path, training)
    expected = TinyModel().hidden.weight.detach()
    for n in (1, 2, 3):
        saved = open_run(tmp_path / "checkpoints" / str(n)).checkpoint
        decay = min(0.9, (1 + n) / (10 + n))
        expected = decay * expected + (1 - decay) * saved.tensors("weights")["hidden.weight"]
        torch.testing.assert_close(saved.tensors("ema")["hidden.weight"], expected)
