"""Matrices in the order that oneDNN's kernels read, and whether they still are what they were made of."""

from collections.abc import MutableMapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary


class Print(NamedTuple):
    """What a matrix was: writing through `.data` changes no version, but a sum of all bits."""

    version: int
    address: int
    bits: int

    @staticmethod
    def of(weight: Tensor) -> "Print":
        flat, size = weight.detach().flatten(), weight.element_size()
        in_eights = all(n * size % 8 == 0 for n in (weight.shape[1], flat.storage_offset()))
        words = flat.view(torch.int64 if in_eights else torch.int16).view(len(weight), -1)
        return Print(weight._version, weight.data_ptr(), weighted_sum(words))


def weighted_sum(words: Int[Tensor, "rows columns"]) -> int:
    """The sums of all rows and of all columns, each with a weight of its own, so that their order counts."""
    sums = (words.sum(side, dtype=torch.int64) for side in (1, 0))
    return sum(
        int((each * (2 * torch.arange(len(each), device=each.device) + 3)).sum()) << shift
        for shift, each in enumerate(sums)
    )


class Laid(NamedTuple):
    """Matrices with as many columns, one below the other, in the order of oneDNN's kernel, and what they were.

    A product with 1 to 16 rows takes half of the time that torch's takes, which brings the matrix into that order anew
    for every product. torch.compile's products on a CPU are the same two calls.
    """

    matrix: Tensor
    prints: list[Print]

    @staticmethod
    def of(weights: Sequence[Tensor]) -> "Laid":
        """What was laid out for these matrices, or is now."""
        found = known.get(weights[0])
        if found is None or not found.is_of(weights):
            whole = torch.cat([weight.detach() for weight in weights]) if len(weights) > 1 else weights[0].detach()
            laid = torch.ops.mkldnn._reorder_linear_weight(whole)
            known[weights[0]] = found = Laid(laid, [Print.of(weight) for weight in weights])
        return found

    def is_of(self, weights: Sequence[Tensor]) -> bool:
        """Whether it is what would be laid out for these matrices."""
        return [Print.of(weight) for weight in weights] == self.prints


known: MutableMapping[Tensor, Laid] = WeakTensorKeyDictionary()  # by the first matrix, while that lives


def forget() -> None:
    """Drop all that was laid out: the next step of training changes the matrices, and the copies take memory."""
    known.clear()
