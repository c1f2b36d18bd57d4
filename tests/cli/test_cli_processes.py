"""The command line stopped by a signal and resumed, and launched on two processes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import Said, call

from patience import HANGS
from ports import free_port
from zoo.runs.saved import open_run
from zoo.training import loop

SETS = ("training.steps=12", "training.save_every=0", "training.evaluate_every=0", "training.precision=float32")

LONG = "training.steps=20"
TWO = Path(__file__).with_name("two_processes.py")


def words(data: Path, folder: Path, *sets: str) -> list[str]:
    pairs = [word for text in (*SETS, *sets) for word in ("--set", text)]
    return ["pretrain", "gpt2-nano", str(data / "lm.yaml"), "-o", str(folder), "--data", str(data), *pairs]


def begin(arguments: list[str], **environment: str) -> "subprocess.Popen[str]":
    given = {**os.environ, **environment}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, *arguments], env=given, text=True, stdout=pipe, stderr=pipe)


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_run_stopped_by_sigterm_resumes_to_the_same_bits(
    zoo: Callable[..., Said], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """SIGTERM after the fifth step, while the sixth is under way; tests/training/test_signals.py stops processes."""
    log = loop.log

    def stop(line: dict[str, Any], *rest: Any) -> None:
        log(line, *rest)
        if line["step"] == 5:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr(loop, "log", stop)
        said = zoo(*words(data, tmp_path / "run", LONG))
    assert said.status == 143 and len(losses(tmp_path / "run")) == 6
    assert said.err.count("after step 6; the state is saved, --resume continues") == 1
    assert call(*words(data, tmp_path / "whole", LONG)) == 0
    assert call(*words(data, tmp_path / "run", LONG), "--resume") == 0
    one, other = (open_run(tmp_path / name / "checkpoints" / "20").weights for name in ("whole", "run"))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")


def test_two_processes_give_the_losses_of_one(data: Path, tmp_path: Path):
    launch = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
    launch += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", str(free_port())]
    two = begin([*launch, "-m", "zoo", *words(data, tmp_path / "two", "dropout=0")], ACCELERATE_USE_CPU="true")
    assert call(*words(data, tmp_path / "one", "dropout=0")) == 0
    out, said = two.communicate(timeout=HANGS)
    assert two.returncode == 0, said
    assert out.count("(12 steps)") == 1 and said.count("on the task's text") == 1
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), abs=1e-4)


def test_two_processes_fine_tune_on_each_of_several_tasks(data: Path, run_of: Callable[[str], Path], tmp_path: Path):
    """All in one group: torch makes no second one with the store of the first."""
    for name in ("one", "other"):
        (tmp_path / f"{name}.yaml").write_bytes((data / "classify.yaml").read_bytes())
    (tmp_path / "list.yaml").write_text("tasks: [one.yaml, other.yaml]\n")
    asked = ["finetune", run_of("mlm"), tmp_path / "list.yaml", "-o", tmp_path / "runs", "--data", data, *SETS[:3]]
    two = begin([str(TWO), str(free_port()), *map(str, asked)])
    out, said = two.communicate(timeout=HANGS)
    assert two.returncode == 0, said
    assert out.count("mean of 2") == 1 and said.count("started: 2 processes") == 2
    assert losses(tmp_path / "runs" / "one") == losses(tmp_path / "runs" / "other")


def test_a_mistake_in_two_processes_is_said_once(
    zoo: Callable[..., Said], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each process as a launcher starts it: with its number, before it has met the other."""
    monkeypatch.setenv("TORCH_CPP_LOG_LEVEL", "WARNING")  # which process 1 would set
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    for number, said_here in (("0", 1), ("1", 0)):
        for name, value in {**shared, "RANK": number, "LOCAL_RANK": number}.items():
            monkeypatch.setenv(name, value)
        said = zoo(*words(data, tmp_path / "run", "training.stesp=3"))
        assert said.status == 2
        assert said.err.count("unknown key 'stesp' (did you mean 'steps'?)") == said_here
        assert said_here or not said.err
    assert not (tmp_path / "run").exists()


def launch(monkeypatch: pytest.MonkeyPatch, **environment: str) -> None:
    """Set what a launcher tells a process, and nothing that this one was told."""
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def test_a_command_that_does_not_train_works_in_process_0_alone(
    zoo: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
):
    launch(monkeypatch, WORLD_SIZE="3", RANK="0", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    first = zoo("list", "tasks", "--json")
    assert first.status == 0 and first.json["tasks"]
    assert first.log.count("zoo list works in one process: process 0 of 3; the rest do nothing") == 1
    assert zoo("list", "taks").status == 2
    for number in "12":
        monkeypatch.setenv("RANK", number)
        for word in ("tasks", "taks"):
            said = zoo("list", word, "--json")
            assert (said.status, said.out, said.err, said.log) == (0, "", "", "")


@pytest.mark.parametrize(
    "environment", [{"WORLD_SIZE": "1", "RANK": "1", "MASTER_ADDR": "127.0.0.1"}, {"WORLD_SIZE": "2", "RANK": "1"}]
)
def test_a_process_that_nobody_launched_with_others_works(
    zoo: Callable[..., Said], monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
):
    launch(monkeypatch, **environment)
    said = zoo("list", "tasks", "--json")
    assert said.status == 0 and said.json["tasks"] and "one process" not in said.log


@pytest.mark.parametrize(
    ("number", "told", "level"), [("0", None, None), ("1", None, "ERROR"), ("1", "INFO", "INFO")], ids=repr
)
def test_torch_warns_in_process_0_alone_unless_it_is_told_otherwise(
    zoo: Callable[..., Said], monkeypatch: pytest.MonkeyPatch, number: str, told: str | None, level: str | None
):
    launch(monkeypatch, WORLD_SIZE="2", RANK=number, LOCAL_RANK=number, MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    monkeypatch.setenv("TORCH_CPP_LOG_LEVEL", told or "")
    if told is None:
        monkeypatch.delenv("TORCH_CPP_LOG_LEVEL")
    assert zoo("pretrain", "no-such-model").status == 2
    assert os.environ.get("TORCH_CPP_LOG_LEVEL") == level
