"""Name the class of a text, of a pair of texts or of a picture."""

from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from zoo.data.ids import Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.objectives.objective import Measured, Objective, accuracy, annotate_document, capacity_of_documents, objectives


@objectives.register("classification")
class Classification(Objective):
    """log p(class | x_1 … x_m), from the first place of an encoder, the last one of a decoder, or a picture's mean.

    Source: Devlin et al. 2019, arXiv:1810.04805, section 4.1; Radford et al. 2018 (GPT), equation 4 (L2).
    """

    head: ClassVar[str] = "classification"
    whole: ClassVar[bool] = True
    metrics: ClassVar[dict[str, bool]] = {"accuracy": True, "f1": True, "matthews": True}

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
