"""Predict each token of a target from those before it and the source."""

from typing import ClassVar

import numpy as np

from zoo.data.ids import Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.objectives.objective import Objective, check_smoothing, objectives


@objectives.register("translation")
class Translation(Objective):
    """sum_i log p(y_i | y_1 … y_{i-1}, x), taught with the true y and smoothed labels.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 5.4.

    Args:
        label_smoothing: the share of probability that is spread evenly over the vocabulary.
    """

    head: ClassVar[str] = "language"
    form: ClassVar[str | None] = "source_target"
    causal: ClassVar[bool | None] = True
    why: ClassVar[str] = "the target is written from left to right"
    metrics: ClassVar[dict[str, bool]] = {"bleu": True, "chrf": True, "perplexity": False}

    def __init__(self, *, weight: float = 1.0, label_smoothing: float = 0.1) -> None:
        super().__init__(weight)
        self.label_smoothing = check_smoothing("translation", label_smoothing)

    def scored(self, plan: ExamplePlan) -> int:
        return plan.length

    def capacity(self, length: int) -> int | None:
        return None

    def annotate(self, example: Example, generator: np.random.Generator, roles: Roles) -> None:
        example.targets[self.head] = example.following
