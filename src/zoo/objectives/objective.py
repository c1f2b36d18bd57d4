"""The contract of objectives: every loss is a sum and a count."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from zoo.objectives.example import Example, Plan, Roles
from zoo.registry import Slot


class Term(NamedTuple):
    """A loss summed over its scored places, how many those were, and its weight in the total."""

    sum: Tensor
    count: Tensor
    weight: float


class Objective(nn.Module, ABC):
    """What a head is asked to predict, and what its mistakes cost.

    Class attributes:
        head: the registered head that it trains.
        form: the form of example that it demands; None where any form will do.
        metrics: the metrics that it offers beside its loss -> whether more is better.
    """

    head: ClassVar[str]
    form: ClassVar[str | None] = None
    metrics: ClassVar[dict[str, bool]] = {}

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = weight

    @abstractmethod
    def scored(self, plan: Plan) -> int:
        """How many places of a planned example it will score."""

    @abstractmethod
    def capacity(self, length: int) -> int | None:
        """The most scored places in a row of `length` places; None where it may score every place."""

    @abstractmethod
    def annotate(self, example: Example, generator: np.random.Generator, roles: Roles) -> None:
        """Write `example.places[head]` and `example.targets[head]` (and change tokens, where the objective masks)."""

    @abstractmethod
    def term(self, logits: Float[Tensor, "*places n"], targets: Int[Tensor, "*places"]) -> Term:
        """The loss over the places whose target is not -1, summed in float32."""

    def count(self, targets: Int[Tensor, "*places"]) -> Tensor:
        """How many places are scored."""
        return (targets >= 0).sum()

    def measure(self, logits: Float[Tensor, "*places n"], targets: Int[Tensor, "*places"]) -> dict[str, tuple[Tensor, Tensor]]:
        """Cheap sums and counts that every log line shows besides the loss, such as the number of right answers."""
        return {}


objectives: Slot[Objective] = Slot("objective")
