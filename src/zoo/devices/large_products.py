"""Matrix products of linear layers whose matrices are large, on a few cores with AMX.

AMX multiplies so fast that the order in which a product reads and writes memory decides how long it takes. With oneDNN
3.12, the ways taken here need two thirds to three quarters of a plain product's time (docs/benchmarks.md, "With AMX").
On other devices, and for small matrices, a plain product is as fast.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.devices.precision import has_amx

LARGE_WEIGHT, MANY_ROWS = 2**20, 2**10  # entries, and rows of both inputs, from which on a layout of its own saves time
STRIP = 64  # rows transposed at a time: the cache holds the lines that they fill
FEW_THREADS = 4  # transposing does not become faster with more threads, but products do
LARGE_OUTPUT = 2**23  # entries: more than fit in the cache
BLOCK = 2**13  # outputs per product


def linear_in_blocks(
    x: Float[Tensor, "rows width"], weight: Float[Tensor, "n width"], bias: Float[Tensor, " n"] | None
) -> Float[Tensor, "rows n"]:
    """Compute x W^T + b, a block of the n outputs at a time where that is faster."""
    if len(x) * len(weight) < LARGE_OUTPUT or not waits_for_memory(x.device, x.dtype):
        return x @ weight.T if bias is None else torch.addmm(bias, x, weight.T)
    y = x.new_empty(len(x), len(weight))
    for start in range(0, len(weight), BLOCK):
        outputs = slice(start, start + BLOCK)
        if bias is None:
            torch.mm(x, weight[outputs].T, out=y[:, outputs])
        else:
            torch.addmm(bias[outputs], x, weight[outputs].T, out=y[:, outputs])
    return y


def write_weight_gradient_(
    total: Float[Tensor, "n width"],
    gradients: Float[Tensor, "rows n"],
    states: Float[Tensor, "rows width"],
    add: bool = False,
) -> None:
    """Compute total = gradients^T states, or total += gradients^T states if `add`.

    Args:
        total: may be of a wider dtype; the product is rounded to that of its inputs before it is written or added.
    """
    n, width = total.shape
    if not is_slow_gradient(len(states), n * width, states.device, states.dtype):
        if total.dtype == states.dtype and not add:
            torch.mm(gradients.T, states, out=total)
        else:
            write_(total, gradients.T @ states, add)
    elif n <= width:
        write_(total, transpose(gradients) @ states, add)
    else:  # the transposed product, for which the narrower of the two matrices is laid out anew
        product = transpose(states) @ gradients
        for of_total, part in zip(torch.split(total, STRIP, 1), torch.split(product, STRIP), strict=True):
            write_(of_total, part.T, add)


def is_slow_gradient(rows: int, entries: int, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether `write_weight_gradient_` is faster than a plain product, which reads its left matrix transposed.

    Args:
        entries: of the weight.
        device, dtype: of the product.
    """
    return entries > LARGE_WEIGHT and rows >= MANY_ROWS and waits_for_memory(device, dtype)


def waits_for_memory(device: torch.device, dtype: torch.dtype | None) -> bool:
    """Whether products in a dtype on a device are computed by AMX, and by few threads.

    A compiled model has plain products, which the compiler lays out and fuses.
    """
    if torch.compiler.is_compiling() or device.type != "cpu" or dtype != torch.bfloat16:
        return False
    return has_amx() and torch.get_num_threads() <= FEW_THREADS


def transpose(x: Float[Tensor, "rows n"]) -> Float[Tensor, "n rows"]:
    """Lay out the transposed matrix, in about half the time of `x.T.contiguous()`."""
    y = x.new_empty(x.shape[1], x.shape[0])
    for of_y, rows in zip(torch.split(y, STRIP, 1), torch.split(x, STRIP), strict=True):
        of_y.copy_(rows.T)
    return y


def write_(total: Tensor, product: Tensor, add: bool) -> None:
    if add:
        total += product
    else:
        total.copy_(product)
