"""Kinds of document labels and their losses: one class, several classes at once, or a number."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from zoo.data.ids import Label
from zoo.devices.precision import widest_dtype
from zoo.models.heads.scores import Scores
from zoo.wording import refuse_unknown


class Cost(NamedTuple):
    """The loss and the predictions of a batch of documents.

    Args:
        sum: loss summed over the documents whose label is known.
        count: what the sum is divided by.
        likelihood: the sum of -log p(target), without smoothing and class weights; None if there is no likelihood.
        guesses: predictions per document, in the form of the targets.
    """

    sum: Tensor
    count: Tensor  # type: ignore[assignment]  # shadows tuple.count, which is never called on it
    likelihood: Tensor | None
    guesses: Tensor


class LabelLoss(ABC):
    """A kind of document labels.

    Targets have shape (documents,), those of `SeveralClasses` (documents, classes).

    Class attributes:
        metrics: names of the metrics that apply to it.
        problem: its `problem_type` in transformers' config.json.

    Args:
        names: of the classes.
    """

    metrics: ClassVar[tuple[str, ...]]
    problem: ClassVar[str]

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = tuple(names)

    @property
    @abstractmethod
    def unscored(self) -> NDArray[Any]:
        """The target of a document without a label; every target has its shape and dtype."""

    def target(self, label: Label) -> NDArray[Any]:
        """Convert a label to a target."""
        return np.asarray(label, dtype=self.unscored.dtype)

    @abstractmethod
    def known(self, targets: Tensor) -> Tensor:
        """Whether the label is known: booleans (documents,)."""

    def count(self, targets: Tensor) -> Tensor:
        """Compute what the summed loss is divided by, a scalar; needs no forward pass."""
        return self.known(targets).sum()

    @abstractmethod
    def cost(self, scores: Scores, targets: Tensor, label_smoothing: float) -> Cost:
        """Compute the loss of the documents whose label is known."""

    @abstractmethod
    def named_predictions(self, logits: Tensor) -> list[tuple[Any, Any]]:
        """Return each document's prediction with class names, and its scores, from logits (documents, outputs)."""

    @abstractmethod
    def named_label(self, label: Label) -> Any:
        """Convert a row's label to the same form; None if it is unknown."""

    @abstractmethod
    def sample(self, number: int, scores: int) -> Any:
        """Make up a label for sample row `number`, in transformers' form; consecutive rows get different labels.

        Args:
            scores: number of outputs of the head.
        """


class OneClass(LabelLoss):
    """One class of several: cross entropy.

    Args:
        weights: weight per class name; 1 for the others. The loss is divided by the sum of weights, as
            `torch.nn.CrossEntropyLoss` does.
    """

    metrics = ("accuracy", "f1", "matthews")
    problem = "single_label_classification"
    unscored = np.array(-1, dtype=np.int64)

    def __init__(self, names: Sequence[str] = (), weights: Mapping[str, float] | None = None) -> None:
        super().__init__(names)
        self.weights: Tensor | None = None
        if weights and names:
            for name in weights:
                refuse_unknown(name, names, "class", "objective: class_weights")
            self.weights = torch.tensor([weights.get(name, 1.0) for name in names], dtype=torch.float64)
        self.placed: dict[torch.device, Tensor] = {}

    def weights_on(self, device: torch.device) -> Tensor:
        """Return the class weights (classes,) on a device; cached, since each copy would wait for the GPU."""
        assert self.weights is not None
        if device not in self.placed:
            self.placed[device] = self.weights.to(device, widest_dtype(device))
        return self.placed[device]

    def known(self, targets: Tensor) -> Tensor:
        return targets >= 0

    def count(self, targets: Tensor) -> Tensor:
        if self.weights is None:
            return super().count(targets)
        weights = self.weights_on(targets.device)[targets.clamp_min(0)]
        return torch.where(self.known(targets), weights, 0).sum()

    def sample(self, number: int, scores: int) -> int:
        return number % 2

    def cost(self, scores: Scores, targets: Tensor, label_smoothing: float) -> Cost:
        if self.weights is None:
            # exactly: accuracy ranks float32 logits, as predictions do, since bfloat16 rounds close ones to equal ones
            found = scores.cross_entropy(targets, label_smoothing, guess=True, exactly=True)
            assert found.guesses is not None
            return Cost(found.sum, self.count(targets), found.likelihood, found.guesses)
        logits = scores.exact()
        weights = self.weights_on(logits.device).to(logits)
        loss = F.cross_entropy(
            logits, targets, weights, ignore_index=-1, reduction="sum", label_smoothing=label_smoothing
        )
        likelihood = F.cross_entropy(logits.detach(), targets, ignore_index=-1, reduction="sum")
        return Cost(loss, self.count(targets), likelihood, logits.detach().argmax(-1))

    def named_predictions(self, logits: Tensor) -> list[tuple[Any, Any]]:
        shares = [dict(zip(self.names, share, strict=True)) for share in logits.float().softmax(-1).tolist()]
        return [(max(share, key=share.__getitem__), share) for share in shares]

    def named_label(self, label: Label) -> str | None:
        assert isinstance(label, int)
        return self.names[label] if label >= 0 else None


class SeveralClasses(LabelLoss):
    """Any number of classes: a document's loss is the mean of the binary cross entropies of all classes.

    With label smoothing e, the target is 1 - e/2 for a class of the document and e/2 for the others.
    """

    metrics = ("f1_micro", "f1_macro")
    problem = "multi_label_classification"

    @property
    def unscored(self) -> NDArray[Any]:
        return np.full(len(self.names), -1, dtype=np.int8)

    def target(self, label: Label) -> NDArray[Any]:
        assert isinstance(label, tuple)
        if -1 in label:
            return self.unscored
        return np.isin(np.arange(len(self.names)), label).astype(np.int8)

    def known(self, targets: Tensor) -> Tensor:
        return (targets >= 0).all(-1)

    def sample(self, number: int, scores: int) -> list[float]:
        return [float((number + place) % 2) for place in range(scores)]

    def cost(self, scores: Scores, targets: Tensor, label_smoothing: float) -> Cost:
        logits = scores.exact()
        wanted = targets.clamp_min(0).to(logits) * (1 - label_smoothing) + label_smoothing / 2
        each = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none").mean(-1)
        loss = torch.where(self.known(targets), each, 0).sum()
        return Cost(loss, self.count(targets), None, (logits.detach() > 0).long())

    def named_predictions(self, logits: Tensor) -> list[tuple[Any, Any]]:
        shares = [dict(zip(self.names, share, strict=True)) for share in logits.float().sigmoid().tolist()]
        return [([name for name, value in share.items() if value > 0.5], share) for share in shares]

    def named_label(self, label: Label) -> list[str] | None:
        assert isinstance(label, tuple)
        return None if -1 in label else [self.names[each] for each in label]


class OneNumber(LabelLoss):
    """A number: squared error."""

    metrics = ("pearson", "spearman", "mse")
    problem = "regression"
    unscored = np.array(np.nan, dtype=np.float32)

    def known(self, targets: Tensor) -> Tensor:
        return targets.isfinite()

    def sample(self, number: int, scores: int) -> float:
        return float(number % 2)

    def cost(self, scores: Scores, targets: Tensor, label_smoothing: float) -> Cost:
        numbers, known = scores.exact().squeeze(-1), self.known(targets)
        # `where` before the subtraction: the gradient of a NaN difference would be NaN even if its loss is replaced
        missed = numbers - torch.where(known, targets, 0).to(numbers)
        return Cost(torch.where(known, missed.square(), 0).sum(), self.count(targets), None, numbers.detach())

    def named_predictions(self, logits: Tensor) -> list[tuple[Any, Any]]:
        return [(number, number) for number in logits.float().squeeze(-1).tolist()]

    def named_label(self, label: Label) -> float | None:
        assert isinstance(label, float)
        return label if math.isfinite(label) else None


LABEL_LOSSES: dict[str, type[LabelLoss]] = {"one": OneClass, "several": SeveralClasses, "number": OneNumber}
