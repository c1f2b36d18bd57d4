"""Base class of objectives; every loss is a sum and a count, so that it does not depend on how batches are split."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from zoo.data.ids import Lengths, Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Limits
from zoo.examples.randomness import Randomness
from zoo.models.heads.scores import Scores
from zoo.registry import Slot

Measured = dict[str, tuple[Tensor, Tensor]]  # a sum and a count per metric
Weights = Mapping[str, Sequence[Tensor | None]]  # attention weights by kind and layer, as in the model's output


class Term(NamedTuple):
    """The loss of one objective on a batch.

    Args:
        sum: loss summed over the scored positions.
        count: what the sum is divided by: the number of scored positions, or the sum of their weights.
        weight: of this loss in the total.
        likelihood: the sum of -log p(target) without smoothing, from which perplexity and bits per byte are computed.
        guesses: the most likely class per position; -1 at positions that are not scored.
        measured: sums and counts of metrics that are logged beside the loss.
    """

    sum: Tensor
    count: Tensor  # type: ignore[assignment]  # shadows tuple.count, which is never called on it
    weight: float
    likelihood: Tensor | None = None
    guesses: Tensor | None = None
    measured: Measured = {}


class Obstacle(NamedTuple):
    """Why an objective cannot be trained or evaluated on a split, and the first document with the problem."""

    reason: str
    document: int


class Objective(ABC):
    """A training objective: the targets of a head and its loss.

    Class attributes:
        head: the registered head that it trains.
        forms: names of the forms of examples that it supports, of which the first that fits the data's columns is used;
            empty: any.
        prefers: the forms to choose from if `forms` is empty, likewise.
        whole: whether a document must stay one example and is truncated if too long; else it is cut into several.
        causal: whether the stream must be causal (True) or bidirectional (False); None: either.
        why: the reason for `causal`, for messages.
        roles: special-token roles that it needs beside those of the template.
        metrics: names of its metrics beside the loss.
        measured_metrics: those of `metrics` that its term measures itself.
        places_per_target: number of positions that are scored together per target.
        selects_best: whether its metrics can select the best checkpoint; else the loss does.
        assumed_on_import: whether an imported model with its head is assumed to be trained on it.
        trained_with: objectives that must be trained with it, with their default options.
        labeled: whether it learns from the column 'label'.
        exact_accuracy: whether accuracy is always computed from float32 logits, as predictions are, whatever the number
            of classes.
        draws: whether it sets `Example.draws`, the random numbers that the model samples by.

    Args:
        weight: of its loss in the total.
        label_smoothing: probability mass that is spread evenly over the classes of its head.

    Attributes:
        form_options: options of its form, such as the fraction of missing tokens.
        equal_length_lists: list columns that must have equally many entries in all rows, with the setting that lifts
            this.
        nonempty_lists: list columns that must have an entry in all rows, with the setting that lifts this.
        sentinels: number of sentinel tokens that the tokenizer needs.
        reads_weights: kinds of attention weights that its loss uses, which the model must then return.
    """

    head: ClassVar[str]
    forms: ClassVar[tuple[str, ...]] = ()
    prefers: ClassVar[tuple[str, ...]] = ("text",)
    whole: ClassVar[bool] = False
    causal: ClassVar[bool | None] = None
    why: ClassVar[str] = ""
    roles: ClassVar[tuple[str, ...]] = ()
    metrics: ClassVar[tuple[str, ...]] = ()
    places_per_target: ClassVar[int] = 1
    measured_metrics: ClassVar[tuple[str, ...]] = ()
    selects_best: ClassVar[bool] = True
    assumed_on_import: ClassVar[bool] = True
    trained_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    labeled: ClassVar[bool] = False
    exact_accuracy: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    form_options: Mapping[str, Any] = {}
    equal_length_lists: Mapping[str, str] = {}
    nonempty_lists: Mapping[str, str] = {}
    sentinels: int = 0
    reads_weights: tuple[str, ...] = ()

    def __init__(self, *, weight: float = 1.0, label_smoothing: float = 0.0) -> None:
        if not 0 <= weight < float("inf"):
            raise ValueError(f"objective: weight must be a finite number of at least 0, got {weight}")
        if not 0 <= label_smoothing < 1:
            name = objectives.name_of(self)
            raise ValueError(f"objective {name}: label_smoothing must be in [0, 1), got {label_smoothing}")
        self.weight, self.label_smoothing = weight, label_smoothing

    def take_labels(self, kind: str, names: Sequence[str] = ()) -> bool:
        """Set the kind of the task's labels and the class names; return False if the objective ignores both."""
        return False

    def obstacle_in(self, lengths: Lengths, limits: Limits) -> Obstacle | None:
        """Why it cannot be trained or evaluated on a split with these limits; None: it can."""
        return None

    @property
    def available_metrics(self) -> tuple[str, ...]:
        """Its metrics that apply to the task's kind of labels."""
        return self.metrics

    @property
    def unscored(self) -> NDArray[Any]:
        """The target of a position that is not scored; every target has its shape and dtype."""
        return np.array(-1, dtype=np.int64)

    def scored(self, plan: ExamplePlan) -> int:
        """The largest number of positions that it will score in a planned example."""
        return plan.length

    def capacity(self, length: int) -> int | None:
        """The largest number of scored positions in a row of `length` tokens; None: every position may be scored.

        A subclass that returns a number must also override `scored`: no example may need more than this.
        """
        return None

    @abstractmethod
    def annotate(self, example: Example, randomness: Randomness, roles: Roles) -> None:
        """Set `targets[head]` and, if `capacity` is not None, `places[head]`; masking also changes the tokens."""

    def final_targets(self, targets: Tensor, read: Tensor | None) -> Tensor:
        """Compute targets that depend on the tokens that the model has read, if a generator replaced some of them."""
        return targets

    def term(self, scores: Scores, targets: Int[Tensor, "*places"], weights: Weights | None = None) -> Term:
        """Compute the loss over the positions whose target is not -1, summed in float32, and its measurements.

        Accuracy is computed only if it is one of the metrics, since the argmax over a vocabulary takes time.

        Args:
            weights: attention weights, for objectives with `reads_weights`.
        """
        asked = "accuracy" in self.metrics
        found = scores.cross_entropy(targets, self.label_smoothing, guess=asked, exactly=self.exact_accuracy)
        count = self.count(targets)
        measured = {"accuracy": ((found.guesses == targets).sum(), count)} if found.guesses is not None else {}
        return Term(found.sum, count, self.weight, found.likelihood, found.guesses, measured)

    def count(self, targets: Int[Tensor, "*places"]) -> Tensor:
        """Count the scored positions, as a scalar; needs no forward pass, so that losses can be scaled before it."""
        return (targets >= 0).sum()


objectives: Slot[Objective] = Slot("objective")
