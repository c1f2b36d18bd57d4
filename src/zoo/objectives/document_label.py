"""Objectives that predict one label per document."""

from abc import ABC
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from zoo.data.ids import Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.randomness import Randomness
from zoo.models.heads.scores import Scores
from zoo.objectives.label_losses import LABEL_LOSSES, LabelLoss, OneClass
from zoo.objectives.objective import Measured, Objective, Term, Weights


class DocumentLabel(Objective, ABC):
    """Scores each document's summary position against the document's label; unknown labels are not scored.

    A row has at most one scored document per 8 tokens.

    Args:
        label_smoothing: probability mass that is spread evenly over the classes.
    """

    answer: LabelLoss = OneClass()

    @property
    def available_metrics(self) -> tuple[str, ...]:
        """Its metrics without those that apply only to other kinds of labels."""
        others = {metric for answer in LABEL_LOSSES.values() for metric in answer.metrics} - set(self.answer.metrics)
        return tuple(metric for metric in self.metrics if metric not in others)

    @property
    def unscored(self) -> NDArray[Any]:
        return self.answer.unscored

    def scored(self, plan: ExamplePlan) -> int:
        return 1

    def capacity(self, length: int) -> int | None:
        return max(1, length // 8)  # fixed slots per row, so that the scored positions have one shape in all batches

    def annotate(self, example: Example, randomness: Randomness, roles: Roles) -> None:
        example.places[self.head] = example.summaries[-self.places_per_target :]  # the positions scored per label
        example.targets[self.head] = self.answer.target(example.label)[None]

    def count(self, targets: Tensor) -> Tensor:
        return self.answer.count(targets)

    def term(self, scores: Scores, targets: Tensor, weights: Weights | None = None) -> Term:
        found = self.answer.cost(scores, targets, self.label_smoothing)
        measured: Measured = {}
        if "accuracy" in self.available_metrics:
            measured = {"accuracy": ((found.guesses == targets).sum(), self.answer.known(targets).sum())}
        return Term(found.sum, found.count, self.weight, found.likelihood, found.guesses, measured)
