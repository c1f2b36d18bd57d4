"""Claims about training settings: strict, merged by precedence, and filled in from data and model."""

from typing import Any

import pytest

from resolved import resolve_training
from zoo import config
from zoo.experiments.fill_in import fix_training
from zoo.strict_yaml import parse_yaml, to_yaml
from zoo.training.settings import Training


def test_the_defaults_are_valid():
    assert resolve_training([]) == Training()


def test_a_higher_level_wins_key_by_key():
    found = resolve_training([{"batch": 8, "learning_rate": 1}, {"batch": 16}, {"seed": 3}])
    assert (found.batch, found.learning_rate, found.seed) == (16, 1.0, 3)


@pytest.mark.parametrize(("lower", "higher"), [({"steps": 7}, {"epochs": 3}), ({"epochs": 3}, {"steps": 7})])
def test_steps_and_epochs_cancel_each_other(lower: dict, higher: dict):
    found = resolve_training([lower, higher, {"batch": 2}])
    assert {key: value for key in ("steps", "epochs") if (value := getattr(found, key))} == higher


@pytest.mark.parametrize(
    ("level", "words"),
    [
        ({"stepz": 3}, r"training.stepz: unknown key 'stepz' \(did you mean 'steps'\?\)"),
        ({"steps": 3, "epochs": 1}, r"training: name either steps \(3\) or epochs \(1\), not both"),
        ({"steps": "many"}, "training.steps: expected a whole number or null, got 'many'"),
        ({"steps": None}, "training: name either steps or epochs"),
        ({"batch": 0}, "training.batch: must be at least 1, got 0"),
        ({"batch": True}, "training.batch: expected a whole number, got True"),
        ({"learning_rate": 0}, "training.learning_rate: must be a finite number above 0, got 0"),
        ({"seed": 2**63}, r"training.seed: expected a whole number below 2\*\*63, got 9223372036854775808"),
        ({"clip": -1.0}, "training.clip: must be a finite number above 0"),
        ({"clip": 0}, "training.clip: must be a finite number above 0, got 0"),
        ({"keep": 0}, "training.keep: must be at least 1, got 0"),
        ({"patience": 0}, "training.patience: must be at least 1, got 0"),
        ({"average": 1}, "training.average: must be at least 2, got 1"),
        ({"warmup_steps": -1}, "training.warmup_steps: must be at least 0, got -1"),
        ({"evaluate_every": -1}, "training.evaluate_every: must be at least 0, got -1"),
        ({"lora": {}, "average": 2}, "training.lora: does not combine with ema, average or strategy fsdp"),
        ({"lora": {}, "strategy": "fsdp"}, "training.lora: does not combine with ema, average or strategy fsdp"),
        ({"layer_decay": 1.1}, "training.layer_decay: must be above 0 and at most 1, got 1.1"),
        ({"layer_decay": 0}, "training.layer_decay: must be above 0 and at most 1, got 0"),
        ({"ema": 1}, "training.ema: must be above 0 and below 1"),
        ({"ema": 0.9, "average": 3}, "training.average: does not combine with ema"),
        ({"patience": 2, "average": 3}, "training.average: does not combine with patience"),
        ({"precision": "bfloat"}, r"training.precision: unknown value 'bfloat' \(did you mean 'bfloat16'\?\)"),
        ({"schedule": "cosin"}, r"training.schedule: unknown schedule 'cosin' \(did you mean 'cosine'\?\)"),
        ({"schedule": {"name": "cosine", "floor": 2}}, "training: schedule.floor: must be from 0 to 1, got 2"),
        ({"optimizer": "adam", "weight_decay": 0.1}, "training.optimizer: unknown option of optimizer 'adam'"),
        ({"weight_decay": -0.1}, "training.weight_decay: must be at least 0, got -0.1"),
        ({"betas": [0.9, 1]}, r"training.betas: each must be at least 0 and below 1, got \[0.9, 1.0\]"),
        ({"eps": -1}, "training.eps: must be at least 0"),
        (
            {"warmup_steps": 1.5},
            "training.warmup_steps: must be whole steps, or a fraction of the run below 1, got 1.5",
        ),
        (
            {"warmup_steps": 1.0},
            "training.warmup_steps: must be whole steps, or a fraction of the run below 1, got 1.0",
        ),
        (
            {"warmup_steps": -0.1},
            "training.warmup_steps: must be whole steps, or a fraction of the run below 1, got -0.1",
        ),
    ],
)
def test_a_wrong_setting_is_refused_by_its_place(level: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=f"^{words}"):  # the place once, at the start
        resolve_training([level])


def test_options_of_the_optimizer_may_stand_beside_it():
    beside = resolve_training([{"weight_decay": 0.1, "betas": [0.8, 0.95]}])
    within = resolve_training([{"optimizer": {"weight_decay": 0.1, "betas": [0.8, 0.95]}}])
    assert beside == within and beside.optimizer.option("betas") == (0.8, 0.95)


def test_an_option_beside_reaches_the_optimizer_of_a_lower_level():
    found = resolve_training([{"optimizer": {"name": "adam", "betas": [0.9, 0.98]}}, {"betas": [0.9, 0.5]}])
    assert found.optimizer.plain() == {"name": "adam", "betas": [0.9, 0.5]}


def test_options_of_the_optimizer_may_stand_beside_it_and_within_it():
    found = resolve_training([{"optimizer": {"name": "adam", "eps": 0.5}, "betas": [0.9, 0.5]}])
    assert found.optimizer.plain() == {"name": "adam", "eps": 0.5, "betas": [0.9, 0.5]}


@pytest.mark.parametrize(
    ("given", "rows"), [({"batch": 8}, 8), ({"batch": 100}, 64), ({"micro_batch": 5}, 5), ({"micro_batch": "auto"}, 32)]
)
def test_a_pass_of_validation_has_as_many_rows_as_one_of_training(given: dict[str, Any], rows: int):
    assert resolve_training([given]).evaluation_batch == rows


@pytest.mark.parametrize("higher", ["adam", {"name": "adam"}])
def test_another_optimizer_drops_the_options_of_the_one_below(higher: Any):
    assert resolve_training([{"weight_decay": 0.1}, {"optimizer": higher}]).optimizer.name == "adam"


def test_epochs_become_steps_rounded_up():
    fixed = fix_training(resolve_training([{"epochs": 3, "batch": 8}]), rows=21, d_model=4)
    assert (fixed.steps, fixed.epochs) == (8, None)
    for epochs, steps in ((1.1, 55), (2.2, 110), (0.001, 1)):  # as they are written: 1.1 * 50 is more than 55 in floats
        fixed = fix_training(resolve_training([{"epochs": epochs, "batch": 1}]), rows=50, d_model=4)
        assert fixed.steps == steps


def test_fixed_settings_state_everything_and_are_read_back():
    fixed = fix_training(resolve_training([{"schedule": "noam", "steps": 50}]), rows=1, d_model=16)
    written = to_yaml(config.dump(fixed))
    assert fixed.schedule.option("d_model") == 16
    assert (fixed.evaluate_every, fixed.save_every) == (5, 5)
    assert "weight_decay: 0.01" in written
    assert resolve_training([parse_yaml(written, "training.yaml")]) == fixed


@pytest.mark.parametrize(("steps", "every"), [(3, 1), (500, 50), (30_000, 1000)])
def test_checkpoints_are_saved_ten_times_a_run_and_at_least_every_1000_steps(steps: int, every: int):
    assert fix_training(resolve_training([{"steps": steps}]), rows=1, d_model=1).save_every == every


def test_what_lies_beyond_the_run_is_reported_and_not_refused(caplog: pytest.LogCaptureFixture):
    fix_training(resolve_training([{"steps": 5, "save_every": 7}]), rows=1, d_model=1)
    assert "training.save_every (7) is beyond the run's 5 steps: zoo saves at its end" in caplog.text
    assert "evaluate_every" not in caplog.text


@pytest.mark.parametrize(("share", "steps", "warmup"), [(0.1, 30, 3), (0.29, 100, 29), (0.5, 1, 0), (4, 30, 4)])
def test_a_share_of_the_run_becomes_steps(share: float, steps: int, warmup: int):
    fixed = fix_training(resolve_training([{"steps": steps, "warmup_steps": share}]), rows=1, d_model=1)
    assert fixed.warmup_steps == warmup and type(fixed.warmup_steps) is int


def test_there_is_no_warm_up_unless_it_is_asked_for():
    assert fix_training(resolve_training([{"steps": 30}]), rows=1, d_model=1).warmup_steps == 0


@pytest.mark.parametrize("warmup", [5, 9])
def test_a_warm_up_of_the_whole_run_is_reported(warmup: int, caplog: pytest.LogCaptureFixture):
    fix_training(resolve_training([{"steps": 5, "warmup_steps": warmup}]), rows=1, d_model=1)
    assert f"training.warmup_steps ({warmup}): the warm-up takes the whole run of 5 steps, so the" in caplog.text


@pytest.mark.parametrize("warmup", [1, 2])
def test_one_step_of_warm_up_is_the_peak_of_a_run_of_one(warmup: int, caplog: pytest.LogCaptureFixture):
    fixed = fix_training(resolve_training([{"steps": 1, "warmup_steps": warmup}]), rows=1, d_model=1)
    reached = fixed.schedule.build(fixed.learning_rate, 1, warmup).rate(1) == fixed.learning_rate
    assert reached == (warmup == 1) == (not caplog.text)


SHIPPED = [(kind, name) for kind in ("configs", "tasks") for name in config.names(kind)]


@pytest.mark.parametrize(("kind", "name"), SHIPPED)
def test_no_run_of_a_shipped_model_or_task_ends_before_its_warm_up(kind: str, name: str):
    layers = config.read_layers(name, kind)
    warmup = resolve_training([layer.tree["training"] for layer in layers if "training" in layer.tree]).warmup_steps
    assert warmup < 0.5
