"""Tell whether the second part of a pair follows the first."""

from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from zoo.data.ids import Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.objectives.objective import Measured, Objective, accuracy, annotate_document, capacity_of_documents, objectives


@objectives.register("next_sentence")
class NextSentence(Objective):
    """log p(is next | A, B): 0 where B follows A, 1 where it comes from another document.

    Source: Devlin et al. 2019, arXiv:1810.04805, section 3.1, task 2.
    """

    head: ClassVar[str] = "next_sentence"
    form: ClassVar[str | None] = "sentences"
    causal: ClassVar[bool | None] = False
    why: ClassVar[str] = "its answer is read from the first place, which in a decoder sees nothing of the pair"
    metrics: ClassVar[dict[str, bool]] = {"accuracy": True}

    def __init__(self, *, weight: float = 1.0) -> None:
        super().__init__(weight)

    def scored(self, plan: ExamplePlan) -> int:
        return 1

    def capacity(self, length: int) -> int | None:
        return capacity_of_documents(length)

    def annotate(self, example: Example, generator: np.random.Generator, roles: Roles) -> None:
        annotate_document(example, self.head)

    def measure(self, logits: Float[Tensor, "*places n"], targets: Int[Tensor, "*places"]) -> Measured:
        return {"accuracy": accuracy(logits, targets)}
