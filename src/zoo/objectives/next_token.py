"""Objectives that predict each token of a text from the tokens before it."""

from abc import ABC

from zoo.data.ids import Roles
from zoo.examples.example import Example
from zoo.examples.randomness import Randomness
from zoo.objectives.objective import Objective


class NextToken(Objective, ABC):
    """Scores every position of the stream against the next token."""

    head = "language"
    causal = True

    def annotate(self, example: Example, randomness: Randomness, roles: Roles) -> None:
        example.targets[self.head] = example.next_tokens
