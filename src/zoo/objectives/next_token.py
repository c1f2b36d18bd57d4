"""Objectives that predict each token of a text from those before it."""

from abc import ABC
from typing import ClassVar

from zoo.data.ids import Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.randomness import Randomness
from zoo.objectives.objective import Objective


class NextToken(Objective, ABC):
    """Every place of the stream is scored against the token that follows, so there is no capacity to hold to."""

    head: ClassVar[str] = "language"
    causal: ClassVar[bool | None] = True

    def scored(self, plan: ExamplePlan) -> int:
        return plan.length

    def capacity(self, length: int) -> int | None:
        return None

    def annotate(self, example: Example, randomness: Randomness, roles: Roles) -> None:
        example.targets[self.head] = example.following
