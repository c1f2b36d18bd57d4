"""Dropout, with cheap random numbers on CPUs."""

from typing import Any

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.devices.compiling import is_transformed

STEPS = 2**16  # the share is met to 1/65536
BYTE = 2**8  # of random numbers of 8 bits
GROUP = 512  # numbers whose bytes are compared with one threshold


class Drops:
    """What drops numbers in training.

    Attributes:
        byte_dropout: on a CPU, draw a byte for each number; false: by torch's dropout, which draws a float.
    """

    byte_dropout = True


def dropout(x: Float[Tensor, "*any"], share: float, training: bool, byte_dropout: bool = True) -> Float[Tensor, "*any"]:
    """Set a share of the numbers to 0 and divide the others by what is left.

    Source: Srivastava et al. 2014, section 4, in the inverted form. On a CPU torch draws one float for each number,
    which took a quarter of a BERT's training step; here eight are decided by one 64-bit draw of torch's generator, and
    the backward pass remembers a byte for each.
    """
    dropped = dropped_steps(share)
    if not training or not dropped:
        return x
    if x.device.type != "cpu" or not byte_dropout:
        return F.dropout(x, share)
    if is_transformed():
        return thinned(x, draw_kept(x, dropped), dropped)
    found: Tensor = Dropped.apply(x, dropped)  # type: ignore[no-untyped-call]
    return found


def dropped_steps(share: float) -> int:
    """How many of 65,536 steps drop a number; one keeps it, however large the share."""
    return min(STEPS - 1, round(share * STEPS))


def enlarged(dropped: int) -> float:
    """What is left is multiplied by this."""
    return STEPS / (STEPS - dropped)


def thinned(x: Float[Tensor, "*any"], kept: Int8[Tensor, "*any"], dropped: int) -> Float[Tensor, "*any"]:
    """The numbers that are kept, enlarged; 0 in the place of the others."""
    return x * kept.to(x.dtype).mul_(enlarged(dropped))


class Dropped(torch.autograd.Function):
    """Numbers of which some are dropped, and the others enlarged."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dropped: int) -> Tensor:
        kept = draw_kept(x, dropped)
        ctx.save_for_backward(kept)
        ctx.dropped = dropped
        return thinned(x, kept, dropped)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return thinned(gradient, kept, ctx.dropped), None


def draw_kept(x: Float[Tensor, "*any"], dropped: int, byte_dropout: bool = True) -> Int8[Tensor, "*any"]:
    """For each number of a tensor on a CPU, 1 if it is kept and 0 if it is dropped.

    A byte alone would meet the share to 1/256. So the threshold is one higher for some groups of numbers, as many as it
    takes: which ones, one more byte for each group decides. Each number is then dropped with the share's own
    probability. Two of a group have a correlation of at most 2^-18 / (share (1 - share)): 0.00004 for a share of 0.1.
    """
    # a compiled graph draws floats as cheaply, and would break at these words; the last thresholds are no bytes
    if torch.compiler.is_compiling() or not byte_dropout or dropped > STEPS - BYTE:
        return (torch.rand(x.shape, dtype=torch.float32, device=x.device) >= dropped / STEPS).to(torch.int8)
    threshold, rest = divmod(dropped, BYTE)
    groups = -(-x.numel() // GROUP)
    words = torch.empty(-(-groups * (GROUP + 1) // 8), dtype=torch.int64, device=x.device).random_(-(2**63), None)
    drawn = words.view(torch.int8)
    numbers = drawn[: groups * GROUP].view(groups, GROUP)
    # -128 is the least of what is drawn; in place, since a comparison that makes booleans takes twenty times as long
    least = drawn[groups * GROUP :][:groups].lt_(rest - BYTE // 2).add_(threshold - BYTE // 2)
    return numbers.ge_(least[:, None]).view(-1)[: x.numel()].view(x.shape)


class Dropout(nn.Module, Drops):
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
        return dropout(x, self.share, self.training, self.byte_dropout)
