"""Claims about killed runs: they go on to the same bits, and the program that says so would notice anything else."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from test_resume import Crash
from tiny import GOAL, Said, TinyFeed, TinyModel, alone, begin, collate, settings
from torch import Tensor

from patience import HANGS
from programs import load_program
from zoo.batches.collate import MicroBatch
from zoo.batches.order import PackedRow
from zoo.runs.checkpoint import Checkpoint
from zoo.runs.metrics import MetricsLog
from zoo.runs.saved import open_run
from zoo.training import learner, step
from zoo.training.loop import train
from zoo.training.state import State
from zoo.training.supervision.stopping import Stopped
from zoo.training.validation import Observers, Validation

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "kill.py"
kill = load_program("benchmarks/kill.py")

SETTINGS = {"steps": 8, "save_every": 2, "evaluate_every": 1, "keep": 20, "ema": 0.9, "micro_batch": "auto"}
SPOILED = range(20, 30)  # the rows of steps 5 and 6
STOP = 5  # not saved otherwise
STATE = [field.name for field in fields(State)]
TENSORS = ["weights", "optimizer/exp_avg/", "optimizer/exp_avg_sq/", "optimizer/step/", "ema"]
CODE = ["metrics.jsonl", "dropout", "seen"]


class Troubled(TinyModel):
    """Drops out, has memory for so many rows, and says NaN for rows of a second document."""

    def __init__(self, rows: int) -> None:
        super().__init__(dropout=0.5)
        self.rows = rows

    def forward(self, tokens: Tensor, documents: Tensor) -> Said:
        if len(tokens) > self.rows:
            raise torch.OutOfMemoryError("out of memory")
        said = super().forward(tokens, documents)
        scores = said.scores["language"]
        scores.states = scores.states.masked_fill((documents == 2)[..., None], torch.nan)
        return said


def spoil(rows: Sequence[PackedRow], micro_batch: int) -> MicroBatch:
    """The rows as ever, some of them of a second document."""
    part = collate(rows, micro_batch)
    for r, row in enumerate(rows):
        if row.plans[0].document in SPOILED:
            part.inputs["documents"][r] *= 2  # type: ignore[index,operator]
    return part


def run(folder: Path, rows: int, stop: bool = False, crash: bool = False) -> None:
    """Train in a folder, perhaps stopped by a signal in a validation, or dying before what it logged then is saved.

    What the model says is worse than at first.
    """
    asked: list[int] = []

    def report(line: dict[str, Any]) -> None:
        if crash and line["step"] == STOP:
            raise Crash

    def score(model: Any, between: Callable[[], None]) -> dict[str, float]:
        asked.append(0)
        if stop and len(asked) == STOP:
            signal.raise_signal(signal.SIGTERM)
        between()
        return {"score": (model.hidden.weight - TinyModel().hidden.weight).norm().item()}

    training = settings(**SETTINGS)
    with begin(folder, resume=True, training=training) as opened:
        feed = TinyFeed(spoil)
        observers = Observers(Validation(score, "score"), report)
        train(Troubled(rows), feed, GOAL, training, opened, alone(), observers)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped in its fifth step and then died in it, beside one that was not; both with a loss scale."""
    place = tmp_path_factory.mktemp("both")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learner, "forward_dtype", lambda *_: torch.float16)
        run(place / "straight", rows=3)
        with pytest.raises(Stopped):
            run(place / "crashed", rows=3, stop=True)
        with pytest.raises(Crash):
            run(place / "crashed", rows=3, crash=True)
    return place


@pytest.fixture
def crashed(both: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The two runs, for one test."""
    monkeypatch.setattr(learner, "forward_dtype", lambda *_: torch.float16)
    shutil.copytree(both, tmp_path / "both")
    return tmp_path / "both"


def finish(place: Path) -> list[str]:
    """Resume the run where there is more memory; what differs from the one that did not die."""
    run(place / "crashed", rows=99)
    return kill.differences(place / "straight", place / "crashed")


def test_nothing_is_lost_where_nothing_is_forgotten(crashed: Path):
    assert finish(crashed) == []


@pytest.mark.parametrize("forgotten", [*STATE, *TENSORS, *CODE])
def test_forgetting_any_part_of_the_state_is_noticed(crashed: Path, monkeypatch: pytest.MonkeyPatch, forgotten: str):
    state, tensors = Checkpoint.state.fget, Checkpoint.tensors
    empty = {"position": {"epoch": 0, "window": 0, "row": 0}}

    def without(checkpoint: Checkpoint) -> dict[str, Any]:
        found = state(checkpoint)
        if forgotten == "seen":
            found["position"] = {**found["position"], "seen": ""}
        return {key: value for key, value in found.items() if key != forgotten} | {
            key: value for key, value in empty.items() if key == forgotten
        }

    def zeroed(checkpoint: Checkpoint, kind: str) -> dict[str, Tensor]:
        named = tensors(checkpoint, kind).items()
        return {name: t * 0 if f"{kind}/{name}".startswith(forgotten) else t for name, t in named}

    monkeypatch.setattr(Checkpoint, "state", property(without))
    monkeypatch.setattr(Checkpoint, "tensors", zeroed)
    if forgotten == "metrics.jsonl":
        monkeypatch.setattr(MetricsLog, "truncate", lambda self, length: None)
    if forgotten == "dropout":
        monkeypatch.setattr(step, "reseed_dropout", lambda *_: None)
    try:
        found = finish(crashed)
    except (KeyError, ValueError) as refused:
        found = [str(refused)]
    assert found


def test_every_part_of_a_checkpoint_is_among_those_that_are_forgotten(crashed: Path):
    checkpoint = open_run(crashed / "straight" / "checkpoints" / "8").checkpoint
    names = {f"{kind}/{name}" for kind in checkpoint.kinds for name in checkpoint.tensors(kind)}
    assert set(checkpoint.files) == {
        "state.json",
        "training.yaml",
        *(f"{kind}.safetensors" for kind in checkpoint.kinds),
    }
    assert all(name.startswith(tuple(TENSORS)) for name in names) and checkpoint.state.keys() == set(STATE)


@pytest.mark.parametrize(
    "name", ["config.yaml", "task.yaml", "training.yaml", "checkpoints/4/state.json", "checkpoints/4/ema.safetensors"]
)
def test_a_changed_file_is_noticed(crashed: Path, name: str):
    shutil.copytree(crashed / "straight", crashed / "copy")
    assert kill.differences(crashed / "straight", crashed / "copy") == []
    path = crashed / "copy" / name
    path.write_bytes(path.read_bytes() + b" ")
    try:
        assert kill.differences(crashed / "straight", crashed / "copy")
    except ValueError as damaged:
        assert path.name in str(damaged)


@pytest.mark.long
def test_runs_killed_at_random_moments_come_to_the_same_bits(tmp_path: Path, trials: int = 60):
    command = [sys.executable, str(PROGRAM), "--trials", str(trials), "--seed", "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0 and f"{trials} of {trials} the same to the last bit" in done.stdout, (
        done.stdout + done.stderr
    )
