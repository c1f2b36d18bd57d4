"""Objectives that give each document one label."""

from abc import ABC

import numpy as np

from zoo.data.ids import Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.objectives.objective import Objective


class DocumentLabel(Objective, ABC):
    """The place that stands for a document is scored against the document's label; -1, which is unknown, costs nothing.

    A row scores at most one document for every 8 places.
    """

    def scored(self, plan: ExamplePlan) -> int:
        return 1

    def capacity(self, length: int) -> int | None:
        return max(1, length // 8)

    def annotate(self, example: Example, generator: np.random.Generator, roles: Roles) -> None:
        example.places[self.head] = np.array([example.summary % len(example.tokens)], dtype=np.int64)
        example.targets[self.head] = np.array([example.label], dtype=np.int64)
