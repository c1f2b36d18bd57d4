"""What an export needs: a model, its tokenizer, its task, and the history of its training."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zoo.data.ids import MESSAGES, NO_ROLES, Roles
from zoo.data.task import Task
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.devices.choose import AS_STORED, Placement
from zoo.examples.form import ModelTraits
from zoo.hub.exporting.tokenizer_files import DEFAULT_CHAT, chat_template
from zoo.hub.targets.declare.target import NativeClass
from zoo.inference.loaded import load_run, model_traits
from zoo.inference.predictors.predictor import predictors
from zoo.models.heads.head import has_classes
from zoo.models.kinds.part import Part
from zoo.models.model import Model
from zoo.models.settings import ModelSettings
from zoo.objectives.label_losses import LABEL_LOSSES, LabelLoss
from zoo.objectives.mixture import Mixture
from zoo.runs.metrics import VALIDATION, is_metric, sample_size
from zoo.runs.request import BaseRecord, RequestRecord
from zoo.runs.saved import SavedRun

PLACEHOLDER = "path/to/this/folder"  # for programs on a card, while the folder's final location is unknown


@dataclass(frozen=True)
class TrainingHistory:
    """How a model was trained, for its model card.

    Args:
        name: name of its run.
        step: step of the weights.
        training: the training settings.
        data: split -> a hash of the data that was read.
        environment: the command, versions and machine of the training.
        request: arguments of the command, and hashes of the checkpoint that it started from.
        log_lines: lines of metrics.jsonl.
    """

    name: str
    step: int = 0
    training: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    request: RequestRecord = RequestRecord()
    log_lines: Sequence[Mapping[str, Any]] = ()

    @property
    def is_imported(self) -> bool:
        """Whether the weights were imported from a transformers folder and not trained since."""
        return not self.step and list(self.environment.get("command", ()))[:2] == ["zoo", "import"]

    @property
    def log_line(self) -> Mapping[str, Any]:
        """The log line of the step of these weights; empty if there is none."""
        return next((line for line in self.log_lines if line["step"] == self.step), {})

    @property
    def n_measured(self) -> int | None:
        """The number of validation examples measured; None: the whole split, even if it has fewer than asked for."""
        return sample_size(self.log_line, self.training)

    @property
    def measured(self) -> dict[str, float]:
        """The validation loss and metrics of these weights."""
        named = {
            key.removeprefix(VALIDATION): value for key, value in self.log_line.items() if key.startswith(VALIDATION)
        }
        # a value that was not finite is null in metrics.jsonl
        known = {key: value for key, value in named.items() if isinstance(value, float)}
        return {key: value for key, value in known.items() if is_metric(key) or key == "loss"}

    @property
    def bases(self) -> list[BaseRecord]:
        """The checkpoint that training started from, the one that that was trained from, and so on to the first."""
        found, base = [], self.request.base
        while base is not None:
            found.append(base)
            base = base.base
        return found


@dataclass(frozen=True)
class TrainedModel:
    """A model with its tokenizer, task and history.

    Args:
        tokenizer: None if the model reads images and generates nothing, or was imported without a tokenizer.
        special: the ids of special tokens, if there is no tokenizer.
        untrained: heads that are newly initialized, as in `Loaded`.
        address: where readers of the card find the export: `org/name` on the Hub.
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
    def traits(self) -> ModelTraits:
        """The model's traits that decide what its examples are."""
        return model_traits(self.model)

    @property
    def text_parts(self) -> dict[str, Part]:
        """The parts that read tokens, by side."""
        parts = {"encoder": self.model.encoder, "decoder": self.model.decoder}
        return {side: part for side, part in parts.items() if part is not None and part.embeddings is not None}

    @property
    def vocab_size(self) -> int:
        """The number of ids that every part that reads tokens knows; 0 if no part reads tokens."""
        known = (part.embeddings for part in self.text_parts.values())
        return min((table.tokens.num_embeddings for table in known if table is not None), default=0)

    @property
    def segments(self) -> bool:
        """Whether token types distinguish the two texts of a pair."""
        return self.traits.segments and not self.traits.source

    @property
    def mixture(self) -> Mixture:
        """The objectives of the task."""
        return Mixture.parse(self.task.objective)

    @property
    def settings(self) -> ModelSettings:
        """The model's settings with heads in the order of the task's objectives: the first head decides the class."""
        order, settings = self.mixture.heads, self.model.settings
        ranked = sorted(settings.heads, key=lambda head: order.index(head.name) if head.name in order else len(order))
        return dataclasses.replace(settings, heads=tuple(ranked))

    @property
    def answer(self) -> LabelLoss:
        """The kind of the task's labels."""
        return LABEL_LOSSES[self.task.label_kind](self.task.labels or ())

    @property
    def is_chat_model(self) -> bool:
        """Whether it was trained on conversations."""
        return MESSAGES in self.task.columns

    def with_special_tokens(self, native: NativeClass) -> NativeClass:
        """The class, set to read special tokens in texts if texts of the task have some (sentinels, ends of turns).

        An objective whose head the class lacks decides nothing: a classifier trained beside `masked_lm` reads text.
        """
        if self.tokenizer is None:
            return native
        members = [name for name, member in self.mixture.members.items() if member.head in native.heads]
        asked = [predictors.build(name) for name in members if name in predictors.names()]
        read = any(one.reads_special_tokens(self.tokenizer) for one in asked)
        chats = bool(self.chat_templates(native))
        return dataclasses.replace(native, reads_special_tokens=native.reads_special_tokens or chats or read)

    def chat_templates(self, native: NativeClass) -> Mapping[str, str]:
        """The chat templates of an export, by name: zoo's own after training on conversations, else the imported ones.

        A class that writes no text gets none, unless the model was only imported: zoo trained it on plain texts.
        """
        if self.tokenizer is None or not (native.generates or self.history.is_imported):
            return {}
        return {DEFAULT_CHAT: chat_template(self.tokenizer)} if self.is_chat_model else self.tokenizer.chat_templates

    def untrained_heads(self, native: NativeClass) -> list[str]:
        """The heads of `native` that are newly initialized, so that their outputs are random."""
        return [head for head in self.untrained if head in native.heads]

    def objectives_without(self, native: NativeClass) -> list[str]:
        """The objectives whose heads `native` lacks."""
        return [name for name, member in self.mixture.members.items() if member.head not in native.heads]

    def measured(self, native: NativeClass) -> dict[str, float]:
        """The validation results for heads of `native`; without the loss if other heads are part of it."""
        lacking = self.objectives_without(native)
        hidden = ["", *lacking] if lacking else []
        # names are <metric>, <objective>/<metric> or, if files are measured one by one, <file>/<objective>/<metric>
        return {name: v for name, v in self.history.measured.items() if f"/{name}".split("/")[-2] not in hidden}

    def class_names(self, native: NativeClass) -> list[str]:
        """The names of the classes that a head of `native` scores: the task's, else those that transformers gives.

        Raises:
            ValueError: the task names another number of classes than the head has.
        """
        choosing = [h for h in self.settings.heads if h.name in native.heads and has_classes(h.name)]
        if not choosing:
            return []
        names, count = self.task.labels, choosing[0].option("labels")
        if names and len(names) != count:
            raise ValueError(f"labels: the task names {len(names)} classes, the model's head has {count}")
        return names or [f"LABEL_{i}" for i in range(count)]


def load_trained(saved: SavedRun, where: Placement = AS_STORED, address: str = PLACEHOLDER) -> TrainedModel:
    """Load a run's model, tokenizer, task and history.

    Args:
        where: device and dtype of the model, which the check of an export uses.
        address: as in `TrainedModel`.

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
        request=saved.request,
        log_lines=saved.metrics,
    )
    tokenizer, task = loaded.optional_tokenizer, loaded.task
    return TrainedModel(loaded.model, tokenizer, task, history, loaded.special, loaded.untrained, address)
