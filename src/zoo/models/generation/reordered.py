"""Matrices in the memory layout of oneDNN's kernels, cached until the weights that they were made from change."""

from collections.abc import MutableMapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary


class Fingerprint(NamedTuple):
    """A fingerprint of a matrix; the checksum also notices writes through `.data`, which do not change the version."""

    version: int
    address: int
    checksum: int

    @staticmethod
    def of(weight: Tensor) -> "Fingerprint":
        flat, size = weight.detach().flatten(), weight.element_size()
        # reading int64 leaves fewer words to sum, where rows and offset are multiples of 8 bytes
        in_eights = all(n * size % 8 == 0 for n in (weight.shape[1], flat.storage_offset()))
        words = flat.view(torch.int64 if in_eights else torch.int16).view(len(weight), -1)
        return Fingerprint(weight._version, weight.data_ptr(), weighted_sum(words))


def weighted_sum(words: Int[Tensor, "rows columns"]) -> int:
    """Return a checksum: the sums of rows and columns, each times a weight of its own, so that their order matters."""
    sums = (words.sum(side, dtype=torch.int64) for side in (1, 0))
    return sum(
        int((each * (2 * torch.arange(len(each), device=each.device) + 3)).sum()) << shift
        for shift, each in enumerate(sums)
    )


class ReorderedMatrix(NamedTuple):
    """Matrices of one width, stacked and reordered for oneDNN's kernel, with the fingerprints of the originals.

    A product with 1 to 16 rows takes half as long as torch's, which reorders the matrix for every product.
    torch.compile's products on a CPU are the same two calls.
    """

    matrix: Tensor
    fingerprints: list[Fingerprint]

    @staticmethod
    def of(weights: Sequence[Tensor]) -> "ReorderedMatrix":
        """Return these matrices reordered: from the cache, or anew if one of them has changed."""
        found = reordered_matrices.get(weights[0])
        if found is None or not found.is_current(weights):
            whole = torch.cat([weight.detach() for weight in weights]) if len(weights) > 1 else weights[0].detach()
            matrix = torch.ops.mkldnn._reorder_linear_weight(whole)
            found = ReorderedMatrix(matrix, [Fingerprint.of(weight) for weight in weights])
            reordered_matrices[weights[0]] = found
        return found

    def is_current(self, weights: Sequence[Tensor]) -> bool:
        """Whether it was made from these matrices, and none has changed since."""
        return [Fingerprint.of(weight) for weight in weights] == self.fingerprints


# by the first matrix, as long as that exists
reordered_matrices: MutableMapping[Tensor, ReorderedMatrix] = WeakTensorKeyDictionary()


def clear_reordered_matrices() -> None:
    """Drop all reordered copies: the next training step changes the matrices, and the copies take memory."""
    reordered_matrices.clear()
