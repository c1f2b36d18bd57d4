"""One-dimensional convolution over positions that stops at document borders."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from zoo.registry import refuse_below


def tap_offsets(kernel: int, dilation: int, causal: bool) -> list[int]:
    """The offsets that a convolution reads, in ascending order: 0 is the position itself, -1 the one before it.

    Args:
        kernel: number of offsets, 0 included.
        dilation: distance between them (tokens).
        causal: whether no offset is positive; else they are centered on 0.
    """
    refuse_below(1, kernel=kernel, dilation=dilation)
    last = 0 if causal else (kernel - 1) // 2
    return [dilation * (last - k) for k in reversed(range(kernel))]


def neighbors(
    x: Float[Tensor, "batch length d_model"], documents: Int[Tensor, "batch length"], offsets: Sequence[int]
) -> Float[Tensor, "batch length kernel d_model"]:
    """Gather the vectors at some offsets from every position; zeros outside the position's document."""
    found = []
    for offset in offsets:
        there = (shifted(documents, offset) == documents) & (documents > 0)
        found.append(torch.where(there[..., None], shifted(x, offset), 0.0))
    return torch.stack(found, dim=2)


def shifted(x: Tensor, offset: int) -> Tensor:
    """Shift rows (batch, length, …) so that each position holds the value `offset` later; zeros beyond the row."""
    length = x.shape[1]
    kept = x[:, max(offset, 0) : max(length + offset, 0)]
    missing = length - kept.shape[1]
    before, after = (missing, 0) if offset < 0 else (0, missing)
    return F.pad(kept, (*[0] * (2 * (x.dim() - 2)), before, after))
