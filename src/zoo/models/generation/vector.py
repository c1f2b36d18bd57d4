"""Products of matrices with one vector, as each token of one text needs them, in float32 on a CPU.

Such a product takes as long as reading its matrix does, so a copy in another order has to be read no faster than the
matrix itself. oneDNN's kernel for few vectors reads its copy at half of what memory gives.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

PARTS = 8  # of a matrix: two are enough on two cores, and sixteen gain nothing
Matrix = Float[Tensor, "rows columns"]
Bias = Float[Tensor, " rows"] | None
Vector = Float[Tensor, "*one columns"]
Multiply = Callable[[Vector], Float[Tensor, "*one rows"]]


class MatrixInParts:
    """A linear map of one vector: MKL multiplies parts of the matrix as a batch.

    On AMD's processors `gemv`, which torch calls for one vector, reads a matrix at a quarter of what memory gives, if
    its rows are shorter than a few thousand numbers. Batches of products go to another kernel, which reads all of that.
    """

    def __init__(self, weight: Matrix, bias: Bias) -> None:
        rows, columns = weight.shape
        parts = min(PARTS, rows)
        self.step = rows // parts
        self.left = rows - parts * self.step  # how many rows the last part has more; so have the others, which overlap
        shape = (parts, self.step + self.left)
        self.parts = weight.detach().as_strided((*shape, columns), (self.step * columns, columns, 1))
        self.bias = None if bias is None else bias.detach().contiguous().as_strided((*shape, 1), (self.step, 1, 1))

    def __call__(self, x: Vector) -> Float[Tensor, "*one rows"]:
        parts, _, columns = self.parts.shape
        # as a row that is transposed: MKL is ten times as slow with a vector that is a column
        vectors = x.reshape(1, columns).t().expand(parts, columns, 1)
        found = torch.bmm(self.parts, vectors) if self.bias is None else torch.baddbmm(self.bias, self.parts, vectors)
        whole = torch.cat([found[:, : self.step].flatten(), found[-1, self.step :, 0]]) if self.left else found
        return whole.view(*x.shape[:-1], -1)


class WholeMatrix:
    """The same by `gemv`, which MKL has better kernels of for Intel's processors than for AMD's.

    On an AMD made to take them it reads at two thirds of what memory gives, and batches of products read at a third.
    """

    def __init__(self, weight: Matrix, bias: Bias) -> None:
        self.weight, self.bias = weight.detach(), None if bias is None else bias.detach()

    def __call__(self, x: Vector) -> Float[Tensor, "*one rows"]:
        return F.linear(x, self.weight, self.bias)


BY_MAKER: dict[str, Callable[[Matrix, Bias], Multiply]] = {"AMD": MatrixInParts, "Intel": WholeMatrix}


def processor() -> str:
    """The name of the processor, which begins with its maker's; empty where torch does not know it."""
    return str(torch.cpu.get_capabilities().get("cpu_name", ""))


def vector_product(weight: Matrix, bias: Bias) -> Multiply | None:
    """What multiplies one vector by a matrix as it is; None: nothing is known that is faster than a copy laid out."""
    if weight.dtype != torch.float32 or not torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        return None
    for maker, kind in BY_MAKER.items():
        if processor().startswith(maker):
            return kind(weight, bias)
    return None
