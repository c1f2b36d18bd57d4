"""One-dimensional convolution over places that stops at document borders."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from zoo.registry import refuse_below


def taps(kernel: int, dilation: int, causal: bool) -> list[int]:
    """The offsets of the places that a place reads, from the first one on: 0 is itself, -1 the place before it.

    Args:
        kernel: how many are read, the place itself among them.
        dilation: distance between them (places).
        causal: whether they are the place and those before it; else the place is in their middle.
    """
    refuse_below(1, kernel=kernel, dilation=dilation)
    last = 0 if causal else (kernel - 1) // 2
    return [dilation * (last - k) for k in reversed(range(kernel))]


def neighbours(
    x: Float[Tensor, "batch length d_model"], documents: Int[Tensor, "batch length"], offsets: Sequence[int]
) -> Float[Tensor, "batch length kernel d_model"]:
    """The vectors at some offsets from every place; zeros where that is a place of another document, or of none."""
    found = []
    for offset in offsets:
        there = (shifted(documents, offset) == documents) & (documents > 0)
        found.append(torch.where(there[..., None], shifted(x, offset), 0.0))
    return torch.stack(found, dim=2)


def shifted(x: Tensor, offset: int) -> Tensor:
    """At each place what stands `offset` places later in its row; zeros beyond the row."""
    length = x.shape[1]
    kept = x[:, max(offset, 0) : max(length + offset, 0)]
    missing = length - kept.shape[1]
    before, after = (missing, 0) if offset < 0 else (0, missing)
    return F.pad(kept, (*[0] * (2 * (x.dim() - 2)), before, after))
