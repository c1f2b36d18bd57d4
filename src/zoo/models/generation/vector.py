"""Products of matrices with one vector, as each token of one text needs them, in float32 on a CPU."""

import torch
from jaxtyping import Float
from torch import Tensor

PARTS = 8  # of a matrix: two are enough on two cores, and sixteen gain nothing


class VectorProduct:
    """A linear map of one vector: MKL multiplies parts of the matrix as a batch.

    A product with one vector takes as long as reading its matrix does. For a matrix as it is, torch calls `gemv`, which
    reads it at a quarter to a third of what memory gives on AMD's processors where rows are shorter than a few thousand
    numbers; oneDNN's kernel reads it at half, from a copy in its own order. Batches of products go to another kernel
    of MKL's, which reads the matrix itself at nine tenths.
    """

    def __init__(self, weight: Float[Tensor, "rows columns"], bias: Float[Tensor, " rows"] | None) -> None:
        rows, columns = weight.shape
        parts = min(PARTS, rows)
        self.step = rows // parts
        self.left = rows - parts * self.step  # how many rows the last part has more; so have the others, which overlap
        shape = (parts, self.step + self.left)
        self.parts = weight.detach().as_strided((*shape, columns), (self.step * columns, columns, 1))
        self.bias = None if bias is None else bias.detach().contiguous().as_strided((*shape, 1), (self.step, 1, 1))

    def __call__(self, x: Float[Tensor, "*one columns"]) -> Float[Tensor, "*one rows"]:
        parts, _, columns = self.parts.shape
        # as a row that is transposed: MKL is ten times as slow with a vector that is a column
        vectors = x.reshape(1, columns).t().expand(parts, columns, 1)
        found = torch.bmm(self.parts, vectors) if self.bias is None else torch.baddbmm(self.bias, self.parts, vectors)
        whole = torch.cat([found[:, : self.step].flatten(), found[-1, self.step :, 0]]) if self.left else found
        return whole.view(*x.shape[:-1], -1)
