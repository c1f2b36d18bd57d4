"""What a head computes with, and what is right: small random states, weights and targets."""

from typing import NamedTuple

import torch
from torch import Tensor

from zoo.models.heads.scores import Scores

CLASSES, WIDTH = 11, 4


class Given(NamedTuple):
    """What a head computes with, and what is right."""

    states: Tensor
    weight: Tensor
    bias: Tensor | None
    targets: Tensor

    @property
    def scores(self) -> Scores:
        return Scores(self.states, self.weight, self.bias)

    @property
    def inputs(self) -> list[Tensor]:
        return [tensor for tensor in self[:3] if tensor is not None]


def given(dtype: torch.dtype = torch.float64, bias: bool = True) -> Given:
    generator = torch.Generator().manual_seed(0)
    shapes = ((3, 5, WIDTH), (CLASSES, WIDTH), (CLASSES,))
    states, weight, add = (2 * torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    targets = torch.randint(0, CLASSES, (3, 5), generator=generator)
    targets[0, 2] = targets[2, 4] = -1
    drawn = [tensor.to(dtype).requires_grad_() for tensor in (states, weight, add)]
    return Given(drawn[0], drawn[1], drawn[2] if bias else None, targets)
