"""What an export needs: a model, its tokenizer, and what is known of its task."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zoo.data.ids import NO_ROLES, Roles
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.form import ModelTraits
from zoo.hub.exporting.record import RunRecord
from zoo.inference.loaded import stream_of
from zoo.models.kinds.part import Part
from zoo.models.model import Model
from zoo.models.settings import ModelSettings

ADDRESS = "path/to/this/folder"


@dataclass(frozen=True)
class Exportable:
    """A model with its tokenizer and task.

    Args:
        tokenizer: None for a model that reads pictures and writes nothing, or that was imported without one.
        special: the ids of special tokens, where there is no tokenizer.
        heads: the heads, the one that decides the class first; empty: in the model's own order.
        labels: the names of the classes, where there is a classification head; empty: none are known.
        generate: how the task generates, as task files say it.
        record: what is known of its training; None: nothing.
        address: where the export will be found, as its card says it: `org/name` on the hub.
    """

    model: Model
    tokenizer: Tokenizer | None
    heads: Sequence[str] = ()
    labels: Sequence[str] = ()
    generate: Mapping[str, Any] = field(default_factory=dict)
    record: RunRecord | None = None
    address: str = ADDRESS
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
        """Whether pairs are told apart by token types."""
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
