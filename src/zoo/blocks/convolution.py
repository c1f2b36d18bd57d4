"""One-dimensional convolution over places that stops at document borders."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.registry import refuse_below


class Neighbours(nn.Module):
    """The neighbours of every place, at fixed distances; those of other documents, or of none, are zeros.

    Args:
        kernel: how many places are read, the place itself among them.
        dilation: distance between them (places).
        causal: whether they are the place and those before it; else the place is in their middle.

    Attributes:
        reach: how far back a place reads (places).
    """

    def __init__(self, kernel: int, dilation: int, causal: bool) -> None:
        super().__init__()
        refuse_below(1, kernel=kernel, dilation=dilation)
        last = 0 if causal else (kernel - 1) // 2
        self.distances = [dilation * (last - k) for k in range(kernel)][::-1]
        self.reach = -self.distances[0]

    def forward(
        self, x: Float[Tensor, "batch length d_model"], documents: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length kernel d_model"]:
        found = []
        for distance in self.distances:
            there = (shifted(documents, distance) == documents) & (documents > 0)
            found.append(torch.where(there[..., None], shifted(x, distance), 0.0))
        return torch.stack(found, dim=2)


def shifted(x: Tensor, distance: int) -> Tensor:
    """At each place what stands `distance` places later in its row; zeros beyond the row."""
    length = x.shape[1]
    kept = x[:, max(distance, 0) : max(length + distance, 0)]
    missing = length - kept.shape[1]
    before, after = (missing, 0) if distance < 0 else (0, missing)
    return F.pad(kept, (*[0] * (2 * (x.dim() - 2)), before, after))
