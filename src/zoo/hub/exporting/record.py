"""What is known of a run: what its export's model card tells, and what its author said in the task file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zoo.data.task import Card, Task
from zoo.inference.loaded import Loaded
from zoo.report.curves import VALIDATION, is_metric
from zoo.runs.saved import SavedRun

WITH_VALUE = ("--set", "-o", "--output", "--data")  # options of a training command that take the next word


@dataclass(frozen=True)
class RunRecord:
    """The history of a trained model.

    Args:
        name: of its run.
        objectives: by name, the first decides what it is for.
        step: of the weights.
        training: the settings it was trained with.
        data: split -> a hash of what was read.
        environment: what it ran on.
        lines: of metrics.jsonl.
    """

    name: str
    objectives: tuple[str, ...]
    task: Task
    step: int
    training: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    lines: Sequence[Mapping[str, Any]] = ()

    @property
    def card(self) -> Card:
        """What its author said of it."""
        return self.task.card

    @property
    def datasets(self) -> list[str]:
        """Its data on the hub."""
        return self.card.datasets or ([self.task.source.hub.split(":")[0]] if self.task.source.hub else [])

    @property
    def measured(self) -> dict[str, float]:
        """What validation gave for these weights, the loss included."""
        line = next((line for line in self.lines if line["step"] == self.step), {})
        named = {key.removeprefix(VALIDATION): value for key, value in line.items() if key.startswith(VALIDATION)}
        known = {key: value for key, value in named.items() if isinstance(value, float)}
        return {key: value for key, value in known.items() if is_metric(key) or key == "loss"}

    @property
    def task_name(self) -> str:
        """How the command that trained it named its task; empty where that is not known."""
        return self.named[1]

    @property
    def base(self) -> str:
        """How the command that fine-tuned it named the checkpoint it began with; empty where it began anew."""
        return self.named[0] if "finetune" in self.environment.get("command", [])[1:2] else ""

    @property
    def named(self) -> tuple[str, str]:
        """The model or checkpoint, and the task, of the command that trained it."""
        words = iter(self.environment.get("command", []))
        told = [word for word in words if not (word in WITH_VALUE and next(words, ""))]
        plain = [word for word in told if not word.startswith("-")]
        return (plain[2], plain[3]) if len(plain) > 3 and plain[1] in ("pretrain", "finetune") else ("", "")


def record_of(saved: SavedRun, loaded: Loaded) -> RunRecord:
    """The record of a run as it lies there."""
    return RunRecord(
        name=saved.folder.name,
        objectives=tuple(loaded.mixture.members),
        task=loaded.task,
        step=saved.step,
        training=saved.training,
        data=saved.data,
        environment=saved.environment,
        lines=[line for line in saved.metrics if "step" in line],
    )
