"""The smallest training there is: a model of three layers, rows that are a function of their number, one objective."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from resolved import resolve_training
from zoo.batches.collate import MicroBatch
from zoo.batches.feed import Feed
from zoo.batches.order import PackedRow
from zoo.examples.example import ExamplePlan
from zoo.experiments.fill_in import fix_training
from zoo.models.heads.scores import Scores
from zoo.objectives.mixture import Mixture
from zoo.runs.run import Run, RunFiles
from zoo.runs.saved import open_run
from zoo.training.loop import train
from zoo.training.settings import Training
from zoo.training.start import start_run
from zoo.training.state import State
from zoo.training.supervision.processes import Processes
from zoo.training.validation import Observers

LENGTH, VOCAB, WIDTH = 6, 11, 5
WINDOW = 7  # rows; steps of 5 end within a window and at its end
GOAL = Mixture.parse("causal_lm")


@dataclass
class Said:
    scores: dict[str, Scores]
    weights: None = None
    read: None = None


class TinyModel(nn.Module):
    """Scores the next token by this one; tied, with dropout."""

    def __init__(self, dropout: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.hidden = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(WIDTH, VOCAB)
        self.output.weight = self.embedding.weight

    def forward(self, tokens: Tensor, documents: Tensor) -> Said:
        states = self.dropout(torch.tanh(self.hidden(self.embedding(tokens))))
        return Said({"language": Scores(states, self.output.weight, self.output.bias)})


class TinyExamples:
    """Row n is example n, without end."""

    window_count, order_version = 10**6, 1

    def rows(self, epoch: int, window: int) -> list[PackedRow]:
        first = window * WINDOW
        return [PackedRow(epoch, (ExamplePlan(i, 0, LENGTH),)) for i in range(first, first + WINDOW)]


def collate(rows: Sequence[PackedRow], micro_batch: int) -> MicroBatch:
    """Rows of 2 to 6 tokens, drawn by their number."""
    tokens = torch.zeros(micro_batch, LENGTH, dtype=torch.long)
    targets = torch.full((micro_batch, LENGTH), -1)
    for r, row in enumerate(rows):
        drawn = np.random.default_rng(row.plans[0].document)
        length = int(drawn.integers(2, LENGTH + 1))
        tokens[r, :length] = torch.from_numpy(drawn.integers(0, VOCAB, length))
        targets[r, :length] = (tokens[r, :length] * 3 + 1) % VOCAB
    documents = (targets >= 0).long()
    named = [(row.epoch, row.plans[0].document, 0) for row in rows]
    used = int(documents.sum())
    inputs: dict[str, Any] = {"tokens": tokens, "documents": documents}
    return MicroBatch(inputs, {"causal_lm": targets}, named, used, used / documents.numel())


def unwatched() -> None:
    """No watchdog waits for a sign of life."""


class TinyFeed(Feed):
    """Rows by their number, made into micro-batches in a way that a test may spoil."""

    def __init__(self, build: Callable[[Sequence[PackedRow], int], MicroBatch] = collate) -> None:
        super().__init__(TinyExamples())  # type: ignore[arg-type]
        self.build = build

    def collate(self, rows: Sequence[PackedRow], micro_batch: int) -> MicroBatch:
        return self.build(rows, micro_batch)


def settings(**values: Any) -> Training:
    """Ten steps on the CPU, unless said otherwise."""
    defaults = {"steps": 10, "batch": 5, "learning_rate": 0.05, "precision": "float32", "schedule": "constant"}
    return fix_training(resolve_training([defaults, values]), rows=20, d_model=WIDTH)


def alone(alive: Callable[[], None] = unwatched) -> Processes:
    """One process on the CPU, which nothing watches."""
    return Processes(Accelerator(cpu=True, mixed_precision="no"), alive)


def begin(folder: Path, resume: bool = False, training: Training | None = None) -> Run:
    files = RunFiles({}, training={} if training is None else {"steps": training.steps})
    return start_run(alone(), folder, files, resume)


def train_tiny(
    folder: Path,
    training: Training,
    model: nn.Module | None = None,
    resume: bool = False,
    observers: Observers | None = None,
    alive: Callable[[], None] = unwatched,
) -> tuple[nn.Module, State]:
    """Train in a folder; the model and where it ended."""
    model = model or TinyModel()
    with begin(folder, resume, training) as run:
        feed = TinyFeed()
        return model, train(model, feed, GOAL, training, run, alone(alive), observers or Observers())


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def losses(folder: Path) -> list[float]:
    return [line["loss"] for line in lines(folder)]


def tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a run's checkpoint."""
    checkpoint = open_run(folder).checkpoint
    return {f"{kind}/{name}": t for kind in checkpoint.kinds for name, t in checkpoint.tensors(kind).items()}


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Whether tensors have the same names and bits."""
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())
