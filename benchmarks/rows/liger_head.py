"""The side of rows `head` that needs the package liger-kernel, Triton and a GPU."""

from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction
from torch import Tensor

from rows.given import Given
from rows.head import work
from rows.turns import Turn

IGNORED = -100


def liger(turn: Turn, given: Given) -> None:
    def loss(states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        options = (None, None, IGNORED, 0.0, 0.0, "sum")  # bias, weights of classes, …, z-loss, smoothing, reduction
        return LigerFusedLinearCrossEntropyFunction.apply(states, weight.to(states.dtype), targets, *options)[0]

    work(turn, given, loss)
