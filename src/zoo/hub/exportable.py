"""What an export needs: a model, its tokenizer, and what is known of its task."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zoo.data.tokenizer import Tokenizer
from zoo.hub.record import Record
from zoo.models.model import Model
from zoo.models.settings import ModelSettings

ADDRESS = "path/to/this/folder"


@dataclass(frozen=True)
class Exportable:
    """A model with its tokenizer and task.

    Args:
        heads: the heads, the one that decides the class first; empty: in the model's own order.
        labels: the names of the classes, where there is a classification head; empty: none are known.
        generate: how the task generates, as task files say it.
        record: what is known of its training; None: nothing.
        address: where the export will be found, as its card says it: `org/name` on the hub.
    """

    model: Model
    tokenizer: Tokenizer
    heads: Sequence[str] = ()
    labels: Sequence[str] = ()
    generate: Mapping[str, Any] = field(default_factory=dict)
    record: Record | None = None
    address: str = ADDRESS

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
