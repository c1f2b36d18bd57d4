"""A norm that draws its own parameter, as a variant of somebody else may."""

import torch
from torch import nn


class Drawing(nn.Module):
    """x times numbers that its constructor draws."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gain
