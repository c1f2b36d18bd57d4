"""GELU's tanh approximation in training on a CPU."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from zoo.devices.compiling import is_transformed

# z(x) = LINEAR x + CUBIC x^3 = 2 sqrt(2/pi) (x + 0.044715 x^3)
LINEAR, CUBIC = (8 / torch.pi) ** 0.5, 0.044715 * (8 / torch.pi) ** 0.5
PART = 2**16  # entries computed at a time by each thread: four float32 tensors of this size fit in a core's cache
DTYPES = (torch.float32, torch.bfloat16)


def tanh_gelu(x: Float[Tensor, "*any"], fast: bool = True) -> Float[Tensor, "*any"]:
    """0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).

    In training on a CPU, large tensors take two thirds of the time of torch's kernels, which spend it on tanh.

    Args:
        fast: false: always torch's kernels.
    """
    trains = fast and x.requires_grad and torch.is_grad_enabled() and x.dtype in DTYPES
    changed = torch.compiler.is_compiling() or is_transformed()
    if x.device.type != "cpu" or x.numel() < PART or not trains or changed:
        return F.gelu(x, approximate="tanh")
    y: Tensor = TanhGELU.apply(x)  # type: ignore[no-untyped-call]
    return y


class TanhGELU(torch.autograd.Function):
    """x sigmoid(z(x)): the same function, since 1 + tanh(u) = 2 sigmoid(2 u); a sigmoid takes a quarter of the time.

    The forward pass also computes the derivative, which is kept for the backward pass instead of x, in x's dtype.
    """

    @staticmethod
    def forward(ctx: Any, x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        y, slope = (torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(2))
        size = min(x.numel(), PART * torch.get_num_threads())
        buffers, linear = x.new_empty(4, size, dtype=torch.float32), x.new_tensor(LINEAR, dtype=torch.float32)
        parts = (torch.split(tensor.reshape(-1), size) for tensor in (x, y, slope))
        for given, of_y, of_slope in zip(*parts, strict=True):
            wide, z, share, other = buffers[:, : len(given)]
            wide.copy_(given)
            torch.addcmul(linear, wide, wide, value=CUBIC, out=z).mul_(wide)
            torch.sigmoid(z, out=share)
            of_y.copy_(torch.mul(wide, share, out=other))
            # y' = s + s (1 - s) x z'(x) with s = sigmoid(z), and x z'(x) = 3 z - 2 LINEAR x
            third = z.sub_(wide, alpha=2 / 3 * LINEAR)
            torch.ops.aten.sigmoid_backward.grad_input(third, share, grad_input=other)
            of_slope.copy_(share.add_(other, alpha=3))
        ctx.save_for_backward(slope)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        (slope,) = ctx.saved_tensors
        return gradient * slope
