"""Products of a matrix with one vector, needed for each token when one text is generated, in float32 on a CPU.

Such a product is bound by memory bandwidth: it takes as long as reading the matrix. So a reordered copy gains nothing,
and oneDNN's kernel for few vectors reads its copy at only half of the bandwidth.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

PARTS = 8  # per matrix: two are enough on two cores, sixteen gain nothing more
Matrix = Float[Tensor, "rows columns"]
Bias = Float[Tensor, " rows"] | None
Vector = Float[Tensor, "*one columns"]
Multiply = Callable[[Vector], Float[Tensor, "*one rows"]]


class MatrixInParts:
    """A linear map of one vector, as a batch of MKL products with parts of the matrix.

    On AMD processors `gemv`, which torch calls for one vector, reads a matrix at a quarter of the memory bandwidth if
    its rows have fewer than a few thousand elements. Batched products use another kernel, which reaches all of it.
    """

    def __init__(self, weight: Matrix, bias: Bias) -> None:
        rows, columns = weight.shape
        parts = min(PARTS, rows)
        self.step = rows // parts
        self.left = rows - parts * self.step  # rows % parts; all parts have as many extra rows, so they overlap
        shape = (parts, self.step + self.left)
        # (parts, rows of a part, columns): views of the weight, not copies
        self.parts = weight.detach().as_strided((*shape, columns), (self.step * columns, columns, 1))
        self.bias = None if bias is None else bias.detach().contiguous().as_strided((*shape, 1), (self.step, 1, 1))

    def __call__(self, x: Vector) -> Float[Tensor, "*one rows"]:
        parts, _, columns = self.parts.shape
        # a transposed row: MKL takes ten times as long for a vector stored as a column
        vectors = x.reshape(1, columns).t().expand(parts, columns, 1)
        found = torch.bmm(self.parts, vectors) if self.bias is None else torch.baddbmm(self.bias, self.parts, vectors)
        whole = torch.cat([found[:, : self.step].flatten(), found[-1, self.step :, 0]]) if self.left else found
        return whole.view(*x.shape[:-1], -1)


class WholeMatrix:
    """A linear map of one vector by `gemv`, whose MKL kernels are better for Intel processors than for AMD's.

    On an AMD processor made to use them, it reads at two thirds of the memory bandwidth, batched products at a third.
    """

    def __init__(self, weight: Matrix, bias: Bias) -> None:
        self.weight, self.bias = weight.detach(), None if bias is None else bias.detach()

    def __call__(self, x: Vector) -> Float[Tensor, "*one rows"]:
        return F.linear(x, self.weight, self.bias)


PRODUCT_BY_VENDOR: dict[str, Callable[[Matrix, Bias], Multiply]] = {"AMD": MatrixInParts, "Intel": WholeMatrix}


def processor() -> str:
    """Return the processor's name, which begins with its maker; empty where torch does not know it."""
    return str(torch.cpu.get_capabilities().get("cpu_name", ""))


def vector_product(weight: Matrix, bias: Bias) -> Multiply | None:
    """Return a linear map of one vector that needs no reordered copy; None where none is known to be faster."""
    if weight.dtype != torch.float32 or not torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        return None
    for maker, kind in PRODUCT_BY_VENDOR.items():
        if processor().startswith(maker):
            return kind(weight, bias)
    return None
