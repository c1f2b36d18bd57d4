"""Claims about processes: two train as one does, and a launch that is not what it seems is refused."""

import json
import re
import signal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from accelerate.utils import DistributedType, LoggerType
from tiny import GOAL, TinyModel, alone, lines, settings

from zoo.runs.run import RunFiles
from zoo.runs.saved import open_run
from zoo.training.learner import reseed_dropout
from zoo.training.loop import stop_run
from zoo.training.start import start_run
from zoo.training.step import take_step
from zoo.training.supervision import launch
from zoo.training.supervision.launch import check_processes, count_launched, describe_processes, start_processes
from zoo.training.supervision.stopping import Stopped

CPU = torch.device("cpu")


def test_two_processes_train_as_one_does_and_resume(server: Any, tmp_path: Path):
    """Five rows a step do not divide by two processes or by micro-batches of two."""
    own = {"steps": 8, "save_every": 0, "evaluate_every": 0}
    alone = server.start(tmp_path / "one", 1, training=own)
    for count, steps in ((1, 2), (2, 5), (2, 8)):
        ranks = server.start(tmp_path / "two", count, training={**own, "steps": steps}, resume=True)
        assert set(ranks.wait()) == {0}, ranks.said()
    assert alone.wait() == [0], alone.said()
    one, two = (lines(tmp_path / name) for name in ("one", "two"))
    assert [line["loss"] for line in two] == pytest.approx([line["loss"] for line in one], abs=1e-5)
    assert [line["gradient_norm"] for line in two] == pytest.approx([line["gradient_norm"] for line in one], abs=1e-5)
    saved = [open_run(tmp_path / name / "checkpoints" / "8").checkpoint for name in ("one", "two")]
    weights, others = (checkpoint.tensors("weights") for checkpoint in saved)
    for name in weights:
        if not name.endswith("key.bias"):  # it cancels in the softmax: AdamW makes steps of its rounding errors
            torch.testing.assert_close(others[name], weights[name], atol=1e-3, rtol=1e-3)
    assert json.loads((tmp_path / "two" / "environment.json").read_text())["processes"] == 2
    positions = [checkpoint.state["position"] for checkpoint in saved]
    assert positions[0] == positions[1] and positions[0]["seen"], "the same examples in the same order"


def test_a_launch_of_which_one_process_joined_is_refused(tmp_path: Path):
    accelerator = start_processes(settings(), tmp_path)
    with pytest.raises(ValueError, match="WORLD_SIZE is 2, but 1 process joined: .*ACCELERATE_USE_CPU=true"):
        check_processes(accelerator, settings(), launched=2)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_first_line_names_the_precision(precision: str, tmp_path: Path):
    own = settings(precision=precision)
    assert f" on cpu, {precision}, CPU threads" in describe_processes(start_processes(own, tmp_path), own)


LAUNCHED = {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


def test_what_a_launcher_sets_is_how_many_processes_there_are():
    assert count_launched({}) == count_launched({"WORLD_SIZE": "1", "RANK": "0"}) == 1
    assert count_launched(LAUNCHED) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"WORLD_SIZE": "two"},
            "WORLD_SIZE: expected a number of processes, got 'two': to train in one process",
        ),
        ({"WORLD_SIZE": ""}, "got '': to train in one process, unset WORLD_SIZE; to train in several, let `accelerate"),
        ({"MASTER_ADDR": None}, "WORLD_SIZE is 2, but without MASTER_ADDR no other process can be found"),
        (dict.fromkeys(["RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"]), "without RANK, LOCAL_RANK, MASTER_ADDR,"),
        ({"RANK": "2"}, "RANK: expected 0 to 1, as WORLD_SIZE is 2; got '2'"),
    ],
)
def test_one_process_that_thinks_it_is_one_of_several_is_refused(change: dict[str, str | None], words: str):
    environment = {name: value for name, value in {**LAUNCHED, **change}.items() if value is not None}
    with pytest.raises(ValueError, match=re.escape(words)):
        count_launched(environment)


def test_another_number_of_processes_than_expected_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="training.processes: 2 expected, but 1 started"):
        start_processes(settings(processes=2), tmp_path)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"num_processes": 1},
            "WORLD_SIZE is 2, but 1 process joined: start with `accelerate launch --multi_gpu --num_p",
        ),
        (
            {"distributed_type": DistributedType.DEEPSPEED},
            "accelerate launch: DEEPSPEED is not supported; use --multi_g",
        ),
        (
            {"gradient_accumulation_steps": 3},
            "leave out --gradient_accumulation_steps; set training.micro_batch instead",
        ),
    ],
)
def test_a_launch_in_which_accelerate_set_up_something_else_is_refused(said: dict[str, Any], words: str):
    usual = {"num_processes": 2, "distributed_type": DistributedType.MULTI_CPU, "gradient_accumulation_steps": 1}
    check_processes(Mock(**usual), settings(), 2)
    with pytest.raises(ValueError, match=re.escape(words)):
        check_processes(Mock(**{**usual, **said}), settings(), 2)


def test_an_unknown_tracker_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"trackers: unknown tracker 'tensorbord' \(did you mean 'tensorboard'"):
        start_processes(settings(trackers=["tensorbord"]), tmp_path)


def test_a_tracker_whose_package_is_missing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(launch, "get_available_trackers", lambda: [LoggerType.TENSORBOARD])
    with pytest.raises(ValueError, match="trackers: the package of 'wandb' is not installed; install it, or leave it"):
        start_processes(settings(trackers=["tensorboard", "wandb"]), tmp_path)


def test_a_folder_that_the_main_process_refuses_is_refused_in_all(tmp_path: Path):
    other = Mock(device=CPU, count=2, is_main=False, sum_numbers=lambda refused: [refused[0] + 1])
    with pytest.raises(ValueError, match=f"{re.escape(str(tmp_path))}: the main process refused it"):
        start_run(other, tmp_path, RunFiles({}), resume=False)


def test_processes_that_a_signal_ends_leave_when_the_state_is_saved_in_all():
    learner = Mock()
    with pytest.raises(Stopped, match="SIGTERM after step 3; the state is saved"):
        stop_run(learner, signal.SIGTERM, "after step 3")
    learner.processes.accelerator.wait_for_everyone.assert_called_once()


def test_only_the_main_process_makes_what_all_of_them_get():
    main, other, made = alone(), alone(), list[int]()
    other.is_main = False

    def make() -> int:
        made.append(1)
        return 5

    assert main.broadcast(make) == 5 and made == [1]
    other.broadcast(make)
    assert made == [1]


def test_dropout_depends_on_seed_step_and_process_alone():
    drawn = {}
    for key in [(1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4), (1, 2, 3)]:
        torch.rand(7)
        reseed_dropout(*key, CPU)
        drawn.setdefault(key, []).append(torch.rand(4).tolist())
    assert drawn[(1, 2, 3)][0] == drawn[(1, 2, 3)][1]
    assert len({str(values[0]) for values in drawn.values()}) == 4


def test_dropout_on_a_gpu_is_seeded_as_on_the_cpu(monkeypatch: pytest.MonkeyPatch):
    given: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed", given.append)
    reseed_dropout(1, 2, 3, CPU)
    assert not given
    reseed_dropout(1, 2, 3, torch.device("cuda"))
    learner: Any = Mock(settings=settings(seed=1), processes=Mock(rank=3, device=torch.device("cuda")))
    take_step(learner, GOAL, [], Mock(step=3), [])
    assert given == [torch.initial_seed()] * 2


def test_the_tiny_model_is_tied():
    model = TinyModel()
    assert model.output.weight is model.embedding.weight
