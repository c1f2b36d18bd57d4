"""Objective `classification`: predict the class of a text, a pair or an image; or several classes, or a number."""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from zoo.objectives.document_label import DocumentLabel
from zoo.objectives.label_losses import LABEL_LOSSES, LabelLoss, OneClass, OneNumber
from zoo.objectives.objective import objectives


@objectives.register("classification")
class Classification(DocumentLabel):
    """log p(class | x_1 … x_m), from the first position of an encoder, the last of a decoder, or an image's mean.

    The task's `labels` sets whether a document has one class, several at once (binary cross entropy of each), or a
    number (squared error).
    Source: Devlin et al. 2019, arXiv:1810.04805, section 4.1; Radford et al. 2018 (GPT), equation 4 (L2).

    Args:
        label_smoothing: probability mass that is spread evenly over the classes.
        class_weights: weight of each class in the loss, by name; 1 for the others.
    """

    head = "classification"
    forms: ClassVar[tuple[str, ...]] = ("image", "pair", "text")  # not a constant: similarity overrides it
    whole = True
    metrics = tuple(dict.fromkeys(metric for answer in LABEL_LOSSES.values() for metric in answer.metrics))
    labeled = True

    def __init__(
        self, *, weight: float = 1.0, label_smoothing: float = 0.0, class_weights: dict[str, float] | None = None
    ) -> None:
        super().__init__(weight=weight, label_smoothing=label_smoothing)
        self.class_weights = class_weights
        self.take_labels("one")

    def take_labels(self, kind: str, names: Sequence[str] = ()) -> bool:
        if self.label_smoothing and LABEL_LOSSES[kind] is OneNumber:
            place = f"objective {objectives.name_of(self)}: label_smoothing ({self.label_smoothing})"
            raise ValueError(f"{place} needs classes, but task.labels is {kind}; leave it out")
        self.answer = answer_of(kind, names, self.class_weights)
        return True


def answer_of(kind: str, names: Sequence[str], weights: Mapping[str, float] | None) -> LabelLoss:
    """Build the kind of labels with its class names and weights.

    Raises:
        ValueError: a weight is not positive and finite or names an unknown class, or the kind of labels has no class
            weights.
    """
    for name, weight in (weights or {}).items():
        if not 0 < weight < math.inf:
            raise ValueError(f"objective: class_weights.{name} must be above 0, got {weight}")
    if LABEL_LOSSES[kind] is OneClass:
        return OneClass(names, weights)
    if weights:
        raise ValueError(f"objective: class_weights need one class per row, but task.labels is {kind}")
    return LABEL_LOSSES[kind](names)
