"""Dropout, with cheap random numbers on CPUs."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

STEPS = 2**16  # random numbers of 16 bits: the share is met to 1/65536


def dropout(x: Float[Tensor, "*any"], share: float, training: bool) -> Float[Tensor, "*any"]:
    """Set a share of the numbers to 0 and divide the others by what is left.

    Source: Srivastava et al. 2014, section 4, in the inverted form. On a CPU torch draws one float for each number,
    which took a quarter of a BERT's training step; here four are decided by one 64-bit draw of torch's generator.
    """
    dropped = dropped_steps(share)
    if not training or not dropped:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, share)
    return x * draw_kept(x, dropped, enlarged(dropped))


def dropped_steps(share: float) -> int:
    """How many of the numbers that can be drawn drop what they are drawn for; one keeps it, however large the share."""
    return min(STEPS - 1, round(share * STEPS))


def enlarged(dropped: int) -> float:
    """What is left is multiplied by this."""
    return STEPS / (STEPS - dropped)


def draw_kept(x: Float[Tensor, "*any"], dropped: int, value: float = 1.0) -> Float[Tensor, "*any"]:
    """For each number of a tensor on a CPU, `value` if it is kept and 0 if it is dropped."""
    if torch.compiler.is_compiling():  # a compiled graph draws floats as cheaply, and would break at these words
        return (torch.rand(x.shape) >= dropped / STEPS).to(x.dtype).mul_(value)
    words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    drawn = words.view(torch.int16)[: x.numel()].view(x.shape)
    least = dropped - STEPS // 2  # of what is kept
    kept = drawn.clamp_(least - 1, least).sub_(least - 1)  # a comparison and its booleans take four times as long
    if x.dtype.itemsize == kept.itemsize:  # 1 or 0 times the bits of the value: its own, or those of 0
        return kept.mul_(bits(value, x.dtype)).view(x.dtype)
    return kept.to(x.dtype).mul_(value)


def bits(value: float, dtype: torch.dtype) -> int:
    """A number in a dtype of 16 bits, read as an integer."""
    return int(torch.tensor(value, dtype=dtype).view(torch.int16))


class Dropout(nn.Module):
    """`dropout` as a module; it drops in training only.

    Args:
        share: of the numbers; 0 drops nothing.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        if not 0 <= share < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {share}")
        self.share = share

    def forward(self, x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        return dropout(x, self.share, self.training)
