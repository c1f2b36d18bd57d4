"""Predict each token of a text about a picture from those before it and the picture."""

from typing import ClassVar

import numpy as np

from zoo.objectives.example import Example, Plan, Roles
from zoo.objectives.objective import Objective, check_smoothing, objectives


@objectives.register("captioning")
class Captioning(Objective):
    """sum_i log p(y_i | y_1 … y_{i-1}, picture), taught with the true y and smoothed labels.

    Source: Xu et al. 2015, arXiv:1502.03044, without its doubly stochastic penalty; label smoothing: Vaswani et al.
    2017, arXiv:1706.03762, section 5.4.

    Args:
        label_smoothing: the share of probability that is spread evenly over the vocabulary.
    """

    head: ClassVar[str] = "language"
    form: ClassVar[str | None] = "image_text"
    causal: ClassVar[bool | None] = True
    why: ClassVar[str] = "the text is written from left to right"
    metrics: ClassVar[dict[str, bool]] = {
        **{f"bleu-{n}": True for n in (4, 1, 2, 3)},
        "bleu": True,
        "chrf": True,
        "perplexity": False,
    }

    def __init__(self, *, weight: float = 1.0, label_smoothing: float = 0.1) -> None:
        super().__init__(weight)
        self.label_smoothing = check_smoothing("captioning", label_smoothing)

    def scored(self, plan: Plan) -> int:
        return plan.length

    def capacity(self, length: int) -> int | None:
        return None

    def annotate(self, example: Example, generator: np.random.Generator, roles: Roles) -> None:
        example.targets[self.head] = example.following
