"""The command line in processes of its own: stopped by a signal and resumed, and launched on two processes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from zoo.runs.saved import open_run

SETS = ("training.steps=12", "training.save_every=0", "training.evaluate_every=0", "training.precision=float32")

LONG = "training.steps=200"


def words(data: Path, folder: Path, *sets: str) -> list[str]:
    pairs = [word for text in (*SETS, *sets) for word in ("--set", text)]
    return ["zoo", "pretrain", "gpt2-nano", str(data / "lm.yaml"), "-o", str(folder), "--data", str(data), *pairs]


def begin(arguments: list[str], **environment: str) -> "subprocess.Popen[str]":
    given = {**os.environ, **environment}
    return subprocess.Popen(
        [sys.executable, "-m", *arguments], env=given, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def wait_for_steps(folder: Path, count: int) -> None:
    """Return when a run has logged some steps."""
    for _ in range(600):
        log = folder / "metrics.jsonl"
        if log.is_file() and len(log.read_bytes().splitlines()) >= count:
            return
        time.sleep(0.05)
    raise AssertionError(f"{folder}: no {count} steps within 30 s")


def stop(data: Path, folder: Path, number: signal.Signals) -> "subprocess.Popen[str]":
    """A run that was sent a signal after a few of its steps, ended."""
    process = begin(words(data, folder, LONG))
    wait_for_steps(folder, 5)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert said.count("the state is saved, --resume continues") == 1 and "Traceback" not in said
    assert len(losses(folder)) < 200
    return process


def test_a_run_stopped_by_sigterm_resumes_to_the_same_bits(data: Path, tmp_path: Path):
    assert stop(data, tmp_path / "run", signal.SIGTERM).returncode == 143
    whole = begin(words(data, tmp_path / "whole", LONG))
    resumed = begin([*words(data, tmp_path / "run", LONG), "--resume"])
    for process in (whole, resumed):
        _, said = process.communicate(timeout=90)
        assert process.returncode == 0, said
    one, other = (open_run(tmp_path / name / "checkpoints" / "200").weights for name in ("whole", "run"))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")


def test_a_run_stopped_by_sigint_saves_its_state(data: Path, tmp_path: Path):
    assert stop(data, tmp_path / "run", signal.SIGINT).returncode == 130
    assert open_run(tmp_path / "run").step == len(losses(tmp_path / "run"))


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def test_two_processes_give_the_losses_of_one(data: Path, tmp_path: Path):
    launch = ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
    launch += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", str(free_port()), "-m"]
    two = begin([*launch, *words(data, tmp_path / "two", "dropout=0")], ACCELERATE_USE_CPU="true")
    one = begin(words(data, tmp_path / "one", "dropout=0"))
    for process in (one, two):
        out, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert out.count("(12 steps)") == 1 and said.count("trained on the task's text") == 1
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), abs=1e-4)


def test_a_mistake_in_two_processes_is_said_once(data: Path, tmp_path: Path):
    launch = ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
    launch += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", str(free_port()), "-m"]
    process = begin([*launch, *words(data, tmp_path / "run", "training.stesp=3")], ACCELERATE_USE_CPU="true")
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0 and said.count("unknown setting 'stesp' (did you mean 'steps'?)") == 1
    assert not (tmp_path / "run").exists()
