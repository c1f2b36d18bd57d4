"""The contract of objectives: every loss is a sum and a count."""

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

Measured = dict[str, tuple[Tensor, Tensor]]  # by metric, a sum and a count
Weights = Mapping[str, Sequence[Tensor | None]]  # attention weights as a model's output has them


class Term(NamedTuple):
    """A loss summed over its scored places, how many those were, and its weight in the total.

    Args:
        likelihood: the sum of -log p(target), never smoothed: what perplexity and bits per byte are made of.
        guesses: the likeliest class of each place, -1 where nothing is scored.
        measured: sums and counts for every log line beside the loss.
    """

    sum: Tensor
    count: Tensor  # type: ignore[assignment]  # a tuple counts too, but nobody asks a term for that
    weight: float
    likelihood: Tensor | None = None
    guesses: Tensor | None = None
    measured: Measured = {}


class Obstacle(NamedTuple):
    """Why an objective cannot be trained, or judged, on a split of the data, and the first document that shows it."""

    reason: str
    document: int


class Objective(ABC):
    """What a head is asked to predict, and what its mistakes cost.

    Class attributes:
        head: the registered head that it trains.
        forms: of example that it can be trained on; the first whose columns the data has is taken. None named: any.
        prefers: of all forms, the ones that it takes where it takes any, the first whose columns the data has.
        whole: whether a document must stay one example (too long, it is truncated instead of cut).
        causal: whether the stream must see the past alone (True) or both sides (False); None where either will do.
        why: the reason for `causal`, as a message says it.
        roles: roles that it needs beside those of the template.
        metrics: the names of the metrics that it offers beside its loss.
        counted: those of `metrics` that its term counts by itself.
        places_each: how many places are scored together for each target.
        decides: whether its metrics tell a better model from a worse one; else the loss decides which is the best.
        assumed: whether an imported model with its head is taken to be trained for it.
        beside: the objectives that are trained with it, and what they begin with where the task does not say it.
        labelled: whether it learns from the column 'label'.
        exactly: whether its right answers are counted by logits in float32, as predictions are made, however many
            classes there are.
        draws: whether it gives each place of an example a number that decides what the model draws there.

    Args:
        weight: of its loss in the total.
        label_smoothing: the share of probability that is spread evenly over what its head chooses from.

    Attributes:
        form_options: options of its form, such as how much of a text it leaves out.
        even: columns of lists that must have equally many entries in all rows, each with what a task says where they
            need not.
        filled: columns of lists that must have an entry in all rows, each with what a task says where they need not.
        sentinels: how many tokens for missing spans a tokenizer needs.
        reads_weights: kinds of attention weights that its loss depends on, so that the model must be asked for them.
    """

    head: ClassVar[str]
    forms: ClassVar[tuple[str, ...]] = ()
    prefers: ClassVar[tuple[str, ...]] = ("text",)
    whole: ClassVar[bool] = False
    causal: ClassVar[bool | None] = None
    why: ClassVar[str] = ""
    roles: ClassVar[tuple[str, ...]] = ()
    metrics: ClassVar[tuple[str, ...]] = ()
    places_each: ClassVar[int] = 1
    counted: ClassVar[tuple[str, ...]] = ()
    decides: ClassVar[bool] = True
    assumed: ClassVar[bool] = True
    beside: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    labelled: ClassVar[bool] = False
    exactly: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    form_options: Mapping[str, Any] = {}
    even: Mapping[str, str] = {}
    filled: Mapping[str, str] = {}
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
        """Learn the kind of a task's labels and the names of its classes; False: kinds mean nothing to it."""
        return False

    def obstacle_in(self, lengths: Lengths, limits: Limits) -> Obstacle | None:
        """Why it cannot be trained, or judged, on a split of the data in such rows; None where it can."""
        return None

    @property
    def offered(self) -> tuple[str, ...]:
        """The metrics that suit what a row's label is."""
        return self.metrics

    @property
    def unscored(self) -> NDArray[Any]:
        """The target of a place that is not scored; its shape and type are those of every target."""
        return np.array(-1, dtype=np.int64)

    def scored(self, plan: ExamplePlan) -> int:
        """The most places of a planned example that it will score."""
        return plan.length

    def capacity(self, length: int) -> int | None:
        """The most scored places in a row of `length` places; None where it may score every place.

        Whoever gives a number also overrides `scored`: no example may need more.
        """
        return None

    @abstractmethod
    def annotate(self, example: Example, randomness: Randomness, roles: Roles) -> None:
        """Write `targets[head]`, where there is a capacity `places[head]` too; masking changes the tokens as well."""

    def settle(self, targets: Tensor, read: Tensor | None) -> Tensor:
        """The targets, where they depend on what the model has read in the place of what it was given."""
        return targets

    def term(self, scores: Scores, targets: Int[Tensor, "*places"], weights: Weights | None = None) -> Term:
        """The loss over the places whose target is not -1, summed in float32, and all that is measured beside it.

        The right answers are counted where accuracy is a metric: the likeliest of a whole vocabulary costs time.

        Args:
            weights: of the model's attention; given to an objective that reads them.
        """
        asked = "accuracy" in self.metrics
        found = scores.cross_entropy(targets, self.label_smoothing, guess=asked, exactly=self.exactly)
        count = self.count(targets)
        measured = {"accuracy": ((found.guesses == targets).sum(), count)} if found.guesses is not None else {}
        return Term(found.sum, count, self.weight, found.likelihood, found.guesses, measured)

    def count(self, targets: Int[Tensor, "*places"]) -> Tensor:
        """How many places are scored; needs no forward pass, so that losses can be weighed before it."""
        return (targets >= 0).sum()


objectives: Slot[Objective] = Slot("objective")
