"""Dropout, with cheap random numbers on CPUs."""

from typing import Any

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.devices.compiling import is_transformed

STEPS = 2**16  # resolution of the dropout probability: multiples of 1/65536
BYTE = 2**8  # values of a random byte
GROUP = 512  # elements whose random bytes are compared with one threshold


class UsesDropout:
    """Mixin of modules that apply dropout.

    Attributes:
        byte_dropout: on a CPU, draw one random byte per element; false: use torch's dropout, which draws a float.
    """

    byte_dropout = True


def dropout(x: Float[Tensor, "*any"], share: float, training: bool, byte_dropout: bool = True) -> Float[Tensor, "*any"]:
    """Set elements to 0 with probability `share` and divide the others by 1 - share.

    Source: Srivastava et al. 2014, section 4, as inverted dropout. On a CPU torch draws one float per element, which
    took a quarter of BERT's training step; here one 64-bit draw of torch's generator decides eight elements, and one
    byte per element is saved for the backward pass.
    """
    dropped = dropped_steps(share)
    if not training or not dropped:
        return x
    if x.device.type != "cpu" or not byte_dropout:
        return F.dropout(x, share)
    if is_transformed():
        return apply_kept(x, draw_kept(x, dropped), dropped)
    found: Tensor = ByteDropout.apply(x, dropped)  # type: ignore[no-untyped-call]
    return found


def dropped_steps(share: float) -> int:
    """The dropout probability in units of 1/65536; at most 65535, so that some elements are kept."""
    return min(STEPS - 1, round(share * STEPS))


def keep_scale(dropped: int) -> float:
    """The factor 1 / (1 - p) that kept elements are multiplied by."""
    return STEPS / (STEPS - dropped)


def apply_kept(x: Float[Tensor, "*any"], kept: Int8[Tensor, "*any"], dropped: int) -> Float[Tensor, "*any"]:
    """Zero the dropped elements and scale the kept ones."""
    return x * kept.to(x.dtype).mul_(keep_scale(dropped))


class ByteDropout(torch.autograd.Function):
    """Dropout on a CPU that saves its mask as bytes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dropped: int) -> Tensor:
        kept = draw_kept(x, dropped)
        ctx.save_for_backward(kept)
        ctx.dropped = dropped
        return apply_kept(x, kept, dropped)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return apply_kept(gradient, kept, ctx.dropped), None


def draw_kept(x: Float[Tensor, "*any"], dropped: int, byte_dropout: bool = True) -> Int8[Tensor, "*any"]:
    """Draw dropout's mask for a CPU tensor: 1 for kept elements, 0 for dropped ones.

    One byte per element alone would give probabilities in steps of 1/256. So each group draws one more byte, which
    decides whether the group's threshold is one higher; every element is then dropped with the probability asked for,
    p = dropped / 65536. Two elements of a group have a correlation of at most 2^-18 / (p (1 - p)): 0.00004 for p = 0.1.
    """
    # compiled graphs draw floats as cheaply and would break at the view as bytes; the highest threshold fits no byte
    if torch.compiler.is_compiling() or not byte_dropout or dropped > STEPS - BYTE:
        return (torch.rand(x.shape, dtype=torch.float32, device=x.device) >= dropped / STEPS).to(torch.int8)
    threshold, rest = divmod(dropped, BYTE)
    groups = -(-x.numel() // GROUP)
    words = torch.empty(-(-groups * (GROUP + 1) // 8), dtype=torch.int64, device=x.device).random_(-(2**63), None)
    drawn = words.view(torch.int8)
    numbers = drawn[: groups * GROUP].view(groups, GROUP)
    # bytes are signed, from -128 on; compared in place, since a comparison to booleans takes twenty times as long
    least = drawn[groups * GROUP :][:groups].lt_(rest - BYTE // 2).add_(threshold - BYTE // 2)
    return numbers.ge_(least[:, None]).view(-1)[: x.numel()].view(x.shape)


class Dropout(nn.Module, UsesDropout):
    """`dropout` as a module; it drops in training only.

    Args:
        share: the probability of dropping an element, in [0, 1).
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        if not 0 <= share < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {share}")
        self.share = share

    def forward(self, x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        return dropout(x, self.share, self.training, self.byte_dropout)
