"""What an export is made of: a model, its tokenizer, its task, and what is known of its training."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zoo.data.ids import MESSAGES, NO_ROLES, Roles
from zoo.data.task import Task
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.devices.choose import AS_STORED, Placement
from zoo.examples.form import ModelTraits
from zoo.hub.targets.declare.target import NativeClass
from zoo.inference.loaded import load_run, stream_of
from zoo.inference.predictors.predictor import predictors
from zoo.models.heads.head import heads
from zoo.models.kinds.part import Part
from zoo.models.model import Model
from zoo.models.settings import ModelSettings
from zoo.objectives.answers import ANSWERS, Answer
from zoo.objectives.mixture import Mixture
from zoo.runs.metrics import VALIDATION, is_metric
from zoo.runs.request import BaseRecord, RequestRecord, read_request
from zoo.runs.saved import SavedRun

PLACEHOLDER = "path/to/this/folder"  # in the programs of a card, where nobody knows yet where the folder will lie


@dataclass(frozen=True)
class TrainingHistory:
    """How a model was trained, for its model card.

    Args:
        name: of its run.
        step: of the weights.
        training: the settings it was trained with.
        data: split -> a hash of what was read.
        environment: what it ran on.
        request: the words of the command, and the hashes of the checkpoint that it goes on from.
        lines: of metrics.jsonl.
    """

    name: str
    step: int = 0
    training: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    request: RequestRecord = RequestRecord()
    lines: Sequence[Mapping[str, Any]] = ()

    @property
    def imported(self) -> bool:
        """Whether the weights are those of a folder of transformers, as they were imported."""
        return not self.step and list(self.environment.get("command", ()))[:2] == ["zoo", "import"]

    @property
    def line(self) -> Mapping[str, Any]:
        """What was logged of the step of these weights."""
        return next((line for line in self.lines if line["step"] == self.step), {})

    @property
    def sample(self) -> int | None:
        """How many examples of the validation split were measured; None: all, which may be fewer than asked for."""
        asked: int | None = self.training.get("evaluation_examples")
        return asked and (None if self.line.get(f"{VALIDATION}examples", asked) < asked else asked)

    @property
    def measured(self) -> dict[str, float]:
        """The validation loss and metrics of these weights."""
        named = {key.removeprefix(VALIDATION): value for key, value in self.line.items() if key.startswith(VALIDATION)}
        # a value that was not finite is null in metrics.jsonl
        known = {key: value for key, value in named.items() if isinstance(value, float)}
        return {key: value for key, value in known.items() if is_metric(key) or key == "loss"}

    @property
    def bases(self) -> list[BaseRecord]:
        """The checkpoint that was trained on, its own base, and so on to the first."""
        found, base = [], self.request.base
        while base is not None:
            found.append(base)
            base = base.base
        return found


@dataclass(frozen=True)
class TrainedModel:
    """A model with its tokenizer and task.

    Args:
        tokenizer: None for a model that reads pictures and writes nothing, or that was imported without one.
        special: the ids of special tokens, where there is no tokenizer.
        untrained: heads that are newly initialised, as in Loaded.
        address: where the export will be found, as its card says it: `org/name` on the hub.
    """

    model: Model
    tokenizer: Tokenizer | None
    task: Task
    history: TrainingHistory
    special: Roles = NO_ROLES
    untrained: tuple[str, ...] = ()
    address: str = PLACEHOLDER

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
    def vocab_size(self) -> int:
        """How many ids every part that reads tokens knows; 0 where none does."""
        known = (part.embeddings for part in self.readers.values())
        return min((table.tokens.num_embeddings for table in known if table is not None), default=0)

    @property
    def segments(self) -> bool:
        """Whether token types tell the two texts of a pair apart."""
        return self.stream.segments and not self.stream.source

    @property
    def mixture(self) -> Mixture:
        """The objectives of the task."""
        return Mixture.parse(self.task.objective)

    @property
    def settings(self) -> ModelSettings:
        """The model's settings with its heads in the order of the task: the first one decides the class."""
        order, settings = self.mixture.heads, self.model.settings
        ranked = sorted(settings.heads, key=lambda head: order.index(head.name) if head.name in order else len(order))
        return dataclasses.replace(settings, heads=tuple(ranked))

    @property
    def answer(self) -> Answer:
        """What a label of the task is."""
        return ANSWERS[self.task.label_kind](self.task.labels or ())

    @property
    def chats(self) -> bool:
        """Whether it was trained on conversations."""
        return MESSAGES in self.task.columns

    def as_read(self, native: NativeClass) -> NativeClass:
        """The class whose tokenizer reads special tokens in texts where texts have some: sentinels, ends of turns."""
        if self.tokenizer is None:
            return native
        asked = [predictors.build(name) for name in self.mixture.members if name in predictors.names()]
        read = any(one.reads_roles(self.tokenizer) for one in asked)
        chats = self.chats or bool(self.tokenizer.chat_templates)
        return dataclasses.replace(native, reads_roles=native.reads_roles or chats or read)

    def never_trained(self, native: NativeClass) -> list[str]:
        """The heads of `native` that are newly initialised: what they answer is random."""
        return [head for head in self.untrained if head in native.heads]

    def objectives_without(self, native: NativeClass) -> list[str]:
        """The objectives whose heads `native` lacks."""
        return [name for name, member in self.mixture.members.items() if member.head not in native.heads]

    def measured(self, native: NativeClass) -> dict[str, float]:
        """What validation measured of the heads of `native`; no loss where other heads are part of it."""
        lacking = self.objectives_without(native)
        hidden = ["", *lacking] if lacking else []
        # <objective>/<metric>, after the name of a file where files are measured one by one
        return {name: v for name, v in self.history.measured.items() if f"/{name}".split("/")[-2] not in hidden}

    def class_names(self, native: NativeClass) -> list[str]:
        """The names of the classes that a head of `native` chooses among: the task's, else those of transformers.

        Raises:
            ValueError: the task names another number of them.
        """
        choosing = [h for h in self.settings.heads if h.name in native.heads and "labels" in heads.options(h.name)]
        if not choosing:
            return []
        names, count = self.task.labels, choosing[0].option("labels")
        if names and len(names) != count:
            raise ValueError(f"labels: the task names {len(names)} classes, the model's head has {count}")
        return names or [f"LABEL_{i}" for i in range(count)]


def load_trained(saved: SavedRun, where: Placement = AS_STORED, address: str = PLACEHOLDER) -> TrainedModel:
    """A run's model, tokenizer, task and history.

    Args:
        where: the model lies, and an export's check computes.

    Raises:
        ValueError: a file of the run is damaged, or does not fit the others.
    """
    loaded = load_run(saved, where)
    history = TrainingHistory(
        name=saved.folder.name,
        step=saved.step,
        training=saved.training,
        data=saved.data,
        environment=saved.environment,
        request=read_request(saved.folder),
        lines=saved.metrics,
    )
    tokenizer, task = loaded.given_tokenizer, loaded.task
    return TrainedModel(loaded.model, tokenizer, task, history, loaded.special, loaded.untrained, address)
