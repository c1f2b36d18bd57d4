"""Several sources in one run: how long an epoch is, and another number of processes on the way."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call
from test_cli_processes import free_port

from patience import HANGS
from zoo.runs.saved import open_run

SIZES = {"large": 40, "middle": 25, "small": 9}
SETS = ("training.batch=4", "training.evaluate_every=0", "training.save_every=0", "training.warmup_steps=0")
TWO = Path(__file__).with_name("two_processes.py")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    for name, size in SIZES.items():
        lines = (f"{name} {n} " + "words " * (n % 9) for n in range(size))
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def words(folder: Path, run: str, weights: dict[str, float], *sets: str) -> list[str]:
    """A run over sources with these weights."""
    mix = {name: {"files": {"train": f"{name}.txt"}, "weight": weight} for name, weight in weights.items()}
    task = {"objective": "causal_lm", "source": {"mix": mix}, "tokenizer": {"name": "characters"}, "length": 32}
    (folder / f"{run}.yaml").write_text(json.dumps(task))
    pairs = [word for text in (*SETS, "training.precision=float32", "dropout=0", *sets) for word in ("--set", text)]
    named = [str(folder / f"{run}.yaml"), "-o", str(folder / run), "--data", str(folder)]
    return ["pretrain", "gpt2-nano", *named, *pairs]


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_an_epoch_of_a_mixture_reads_its_largest_source_once(folder: Path):
    epoch = "training.epochs=1"
    assert call(*words(folder, "alone", {"large": 1}, epoch, "training.batch=1")) == 0
    largest = lines(folder / "alone")[-1]["step"]
    for run, weights in (("even", {"large": 1, "small": 1}), ("more", {"large": 3, "small": 1})):
        assert call(*words(folder, run, weights, epoch)) == 0
        last = lines(folder / run)[-1]
        rows = largest * sum(weights.values()) / weights["large"]
        assert rows <= 4 * last["step"] < rows + 5 and largest <= last["rows/large"] < largest + 5


def test_another_number_of_processes_changes_no_row_of_a_mixture(folder: Path):
    weights, steady = {"large": 2, "middle": 1.5, "small": 0.5}, "training.schedule=constant"
    assert call(*words(folder, "whole", weights, steady, "training.steps=9")) == 0
    for steps, processes in ((3, 1), (6, 2), (9, 1)):
        told = [*words(folder, "run", weights, steady, f"training.steps={steps}"), "--resume"]
        if processes == 1:
            assert call(*told) == 0
        else:
            subprocess.run([sys.executable, str(TWO), str(free_port()), *told], check=True, timeout=HANGS)
    states = [open_run(folder / name / "checkpoints" / "9").checkpoint.state["position"] for name in ("whole", "run")]
    assert states[0] == states[1]
    assert all(abs(count - 36 * weights[name] / 4) < 1 for name, count in states[0]["taken"].items())
    assert all(place["seen"] for place in states[0]["sources"].values()), "a hash of every example so far"
    keys, runs = ("rows/small", "loss"), (lines(folder / name) for name in ("run", "whole"))
    run, whole = ([[line[key] for key in keys] for line in found] for found in runs)
    assert np.array(run) == pytest.approx(np.array(whole), abs=1e-4)
