"""The documents of packed rows as separate sequences, longest first, as recurrent kernels read them.

If the packer knows the lengths, they are taken from the CPU, without waiting for the GPU.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from zoo.devices.copying import to_device


class DocumentSpan(NamedTuple):
    """Where a document lies in a batch of packed rows.

    Args:
        row: index of its row in the batch.
        number: its number in the row, from 1.
        start: flat index of its first token: row * length + index in the row.
        length: in tokens.
    """

    row: int
    number: int
    start: int
    length: int


def spans_from_lengths(rows: Sequence[Sequence[int]], length: int) -> Iterator[DocumentSpan]:
    """Yield the span of each document from the lengths of each row's documents and the length of a row.

    Documents lie back to back from the row's start.
    """
    for row, lengths in enumerate(rows):
        start = row * length
        for number, places in enumerate(lengths, start=1):
            if places:
                yield DocumentSpan(row, number, start, places)
            start += places


def spans_from_numbers(numbers: Int[Tensor, "batch length"]) -> Iterator[DocumentSpan]:
    """Yield the span of each document, found from the document numbers per position; waits for the GPU.

    Raises:
        ValueError: a document is interrupted by padding or by another document.
    """
    for row, by_place in enumerate(numbers.tolist()):
        start, met = row * len(by_place), set[int]()
        for number, run in groupby(by_place):
            places = len(list(run))
            if number in met:
                raise ValueError(
                    f"documents: document {number} of sequence {row} has a gap, which recurrent layers cannot read"
                )
            if number > 0:
                met.add(number)
                yield DocumentSpan(row, number, start, places)
            start += places


class Sequences:
    """The documents of packed rows sorted by length, longest first; ties stay in reading order.

    If there is no document, a single one of length 0 is used, at position 0 of row 0.

    Args:
        spans: the documents.
        shape: (batch, length) of the rows.
        device: of the rows.

    Attributes:
        sizes: number of documents with at least 1, 2, … tokens (torch's `batch_sizes`).
        starts: flat index of each document's first token.
        places: flat index of each token in PackedSequence order: the first tokens of all documents, then the second
            tokens, and so on.
        slots: flat index of the same tokens in a batch padded to one document per row, as `padded` returns.
    """

    def __init__(self, spans: Iterator[DocumentSpan], shape: tuple[int, int], device: torch.device) -> None:
        self.spans = sorted(spans, key=lambda span: -span.length) or [DocumentSpan(0, 0, 0, 0)]
        self.shape, self.device = shape, device
        upward = [span.length for span in reversed(self.spans)]
        sizes = [len(upward) - bisect_right(upward, at) for at in range(upward[-1])]
        self.sizes = sizes or [1]  # kernels need at least one time step
        self.starts = self.on_device([span.start for span in self.spans])
        # for each token, in PackedSequence order: its index in its document, and the document's index; without
        # `output_size`, repeat_interleave would wait for the GPU
        n, repeats, total = len(sizes), self.on_device([*sizes, *sizes]), sum(sizes)
        begins = self.on_device([0, *accumulate(sizes)][:n])
        both = torch.cat([torch.arange(n, device=device), begins]).repeat_interleave(repeats, output_size=2 * total)
        at, document = both[:total], torch.arange(total, device=device) - both[total:]
        self.places = self.starts[document] + at
        self.slots = document * n + at

    def on_device(self, numbers: list[int]) -> Int[Tensor, " numbers"]:
        """Copy numbers to the device of the rows without a host synchronization."""
        return to_device(torch.tensor(numbers, dtype=torch.long, device="cpu"), self.device)

    def to_steps(self, x: Shaped[Tensor, "batch length *any"]) -> Shaped[Tensor, "places *any"]:
        """Gather the rows' vectors in PackedSequence order: the `data` of a PackedSequence."""
        flat = x.flatten(0, 1)
        return flat.index_select(0, self.places) if len(self.places) else flat[:1]

    def to_rows(self, steps: Shaped[Tensor, "places *any"]) -> Shaped[Tensor, "batch length *any"]:
        """Scatter the data of a PackedSequence back into rows; 0 where there is no document."""
        out = steps.new_zeros(self.shape[0] * self.shape[1], *steps.shape[1:])
        return out.index_copy(0, self.places, steps[: len(self.places)]).view(*self.shape, *steps.shape[1:])

    def padded(self, x: Shaped[Tensor, "batch length *any"]) -> Shaped[Tensor, "documents longest *any"]:
        """Pad to one document per row, with zeros after its end."""
        flat = x.flatten(0, 1)
        out = flat.new_zeros(len(self.spans) * len(self.sizes), *flat.shape[1:])
        out = out.index_copy(0, self.slots, flat.index_select(0, self.places))
        return out.view(len(self.spans), len(self.sizes), *flat.shape[1:])
