"""What an export is made of: a model, its tokenizer, its task, and what is known of its training."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zoo import config
from zoo.data.ids import NO_ROLES, Roles
from zoo.data.task import Card, Task
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.form import ModelTraits
from zoo.inference.loaded import load_run, stream_of
from zoo.models.kinds.part import Part
from zoo.models.model import Model
from zoo.models.settings import ModelSettings
from zoo.report.curves import VALIDATION, is_metric
from zoo.runs.request import read_request
from zoo.runs.saved import SavedRun

PLACEHOLDER = "path/to/this/folder"  # in the programs of a card, where nobody knows yet where the folder will lie


@dataclass(frozen=True)
class TrainingHistory:
    """How a model was trained, for its model card.

    Args:
        name: of its run.
        objectives: by name, the first decides what it is for.
        step: of the weights.
        training: the settings it was trained with.
        data: split -> a hash of what was read.
        environment: what it ran on.
        request: the words of the command, and the hashes of the checkpoint that it goes on from.
        lines: of metrics.jsonl.
    """

    name: str
    objectives: tuple[str, ...]
    task: Task
    step: int
    training: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)
    lines: Sequence[Mapping[str, Any]] = ()

    @property
    def card(self) -> Card:
        """What its author wrote into the task file."""
        return self.task.card

    @property
    def datasets(self) -> list[str]:
        """Its data on the hub."""
        return self.card.datasets or ([self.task.source.hub.split(":")[0]] if self.task.source.hub else [])

    @property
    def measured(self) -> dict[str, float]:
        """The validation loss and metrics of these weights."""
        line = next((line for line in self.lines if line["step"] == self.step), {})
        named = {key.removeprefix(VALIDATION): value for key, value in line.items() if key.startswith(VALIDATION)}
        known = {key: value for key, value in named.items() if isinstance(value, float)}
        return {key: value for key, value in known.items() if is_metric(key) or key == "loss"}

    @property
    def metrics(self) -> dict[str, float]:
        """What was measured, the loss left out."""
        return {name: value for name, value in self.measured.items() if name != "loss"}

    @property
    def task_name(self) -> str:
        """The task, as the command that trained the model named it; empty if unknown."""
        return str(self.request.get("task", ""))

    @property
    def base(self) -> str:
        """The checkpoint that was trained on, as the command named it; empty if the model was trained from scratch."""
        return str(self.request["start"]) if self.request.get("base") else ""

    @property
    def bases(self) -> list[Mapping[str, Any]]:
        """That checkpoint, its own base, and so on to the first: step, and hashes of weights and data."""
        found, base = [], self.request.get("base")
        while base:
            found.append(base)
            base = base.get("base")
        return found


@dataclass(frozen=True)
class TrainedModel:
    """A model with its tokenizer and task.

    Args:
        tokenizer: None for a model that reads pictures and writes nothing, or that was imported without one.
        special: the ids of special tokens, where there is no tokenizer.
        heads: the heads, the one that decides the class first; empty: in the model's own order.
        labels: the names of the classes, where there is a classification head; empty: none are known.
        generate: how the task generates, as task files say it.
        history: of its training; None: nothing is known.
        address: where the export will be found, as its card says it: `org/name` on the hub.
    """

    model: Model
    tokenizer: Tokenizer | None
    heads: Sequence[str] = ()
    labels: Sequence[str] = ()
    generate: Mapping[str, Any] = field(default_factory=dict)
    history: TrainingHistory | None = None
    address: str = PLACEHOLDER
    special: Roles = NO_ROLES

    @property
    def roles(self) -> Roles:
        """The ids of special tokens."""
        return self.special if self.tokenizer is None else self.tokenizer.roles

    @property
    def stream(self) -> ModelTraits:
        """What examples must know of the model."""
        return stream_of(self.model)

    @property
    def readers(self) -> dict[str, Part]:
        """The parts that read tokens, by side."""
        parts = {"encoder": self.model.encoder, "decoder": self.model.decoder}
        return {side: part for side, part in parts.items() if part is not None and part.embeddings is not None}

    @property
    def segments(self) -> bool:
        """Whether token types tell the two texts of a pair apart."""
        return self.stream.segments and not self.stream.source

    @property
    def settings(self) -> ModelSettings:
        """The model's settings with its heads in the order of the task."""
        order = list(self.heads)
        heads = self.model.settings.heads
        ranked = sorted(heads, key=lambda head: order.index(head.name) if head.name in order else len(order))
        return dataclasses.replace(self.model.settings, heads=tuple(ranked))

    @property
    def class_names(self) -> list[str]:
        """The names of the classes: the task's, else those that transformers would give."""
        count = next(head.option("labels") for head in self.settings.heads if head.name == "classification")
        if self.labels and len(self.labels) != count:
            raise ValueError(f"labels: the task names {len(self.labels)} classes, the model's head has {count}")
        return list(self.labels) or [f"LABEL_{i}" for i in range(count)]


def load_trained(saved: SavedRun, address: str = PLACEHOLDER) -> TrainedModel:
    """A run's model, tokenizer, task and history.

    Raises:
        ValueError: a file of the run is damaged, or does not fit the others.
    """
    loaded = load_run(saved)
    history = TrainingHistory(
        name=saved.folder.name,
        objectives=tuple(loaded.mixture.members),
        task=loaded.task,
        step=saved.step,
        training=saved.training,
        data=saved.data,
        environment=saved.environment,
        request=config.dump(read_request(saved.folder)),
        lines=saved.metrics,
    )
    return TrainedModel(
        model=loaded.model,
        tokenizer=loaded.given_tokenizer,
        special=loaded.special,
        heads=loaded.mixture.heads,
        labels=loaded.task.labels or (),
        generate=loaded.task.generate,
        history=history,
        address=address,
    )
