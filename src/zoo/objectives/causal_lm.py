"""Predict each token from those before it."""

from typing import ClassVar

import numpy as np

from zoo.data.ids import Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.objectives.objective import Objective, objectives


@objectives.register("causal_lm")
class CausalLM(Objective):
    """L1 = sum_i log p(u_i | u_1 … u_{i-1}).

    Source: Radford et al. 2018 (GPT), equation 1; with classification and a weight of 0.5 it is the L3 of equation 5.
    """

    head: ClassVar[str] = "language"
    causal: ClassVar[bool | None] = True
    why: ClassVar[str] = "a place that sees both sides sees the token it should predict"
    metrics: ClassVar[dict[str, bool]] = {"perplexity": False, "bits_per_byte": False}

    def __init__(self, *, weight: float = 1.0) -> None:
        super().__init__(weight)

    def scored(self, plan: ExamplePlan) -> int:
        return plan.length

    def capacity(self, length: int) -> int | None:
        return None

    def annotate(self, example: Example, generator: np.random.Generator, roles: Roles) -> None:
        example.targets[self.head] = example.following
