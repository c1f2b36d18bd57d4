"""The side of rows `head` that needs the package liger-kernel, Triton and a GPU."""

from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction
from torch import Tensor

from rows.head import measure_loss
from rows.side_args import SideArgs
from rows.side_process import TurnReporter

IGNORE_INDEX = -100


def liger(reporter: TurnReporter, args: SideArgs) -> None:
    def loss(states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        options = (
            None,
            None,
            IGNORE_INDEX,
            0.0,
            0.0,
            "sum",
        )  # bias, class weights, …, z-loss, smoothing, reduction
        return LigerFusedLinearCrossEntropyFunction.apply(states, weight.to(states.dtype), targets, *options)[0]

    measure_loss(reporter, args, loss)
