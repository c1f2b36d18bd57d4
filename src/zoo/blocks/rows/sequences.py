"""Documents as sequences of their own, from the longest on: what recurrent kernels read.

Their lengths are read on the CPU, where a packer knows them: no kernel of a GPU has to be waited for.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from zoo.devices.copying import sent


class DocumentSpan(NamedTuple):
    """Where a document lies.

    Args:
        row, number: it is the number-th document of this row.
        start: its first place, flat (row * length + place).
        length: places.
    """

    row: int
    number: int
    start: int
    length: int


def laid(rows: Sequence[Sequence[int]], length: int) -> Iterator[DocumentSpan]:
    """The documents of rows so long, from their lengths: one after the other, from a row's first place on."""
    for row, lengths in enumerate(rows):
        start = row * length
        for number, places in enumerate(lengths, start=1):
            if places:
                yield DocumentSpan(row, number, start, places)
            start += places


def found(numbers: Int[Tensor, "batch length"]) -> Iterator[DocumentSpan]:
    """The documents of rows, from their numbers by place, wherever they lie; a GPU is waited for.

    Raises:
        ValueError: a document has a gap.
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
    """The documents of packed rows, from the longest to the shortest, and among those as long in reading order.

    Where there is no document at all, one of length 0 stands for it, in place 0 of row 0.

    Args:
        spans: the documents.
        shape: of the rows.
        device: where the rows are.

    Attributes:
        sizes: how many documents have a first place, a second one and so on: torch's `batch_sizes`.
        starts: the first place of each document.
        places: the place of each step: the first ones of all documents, then the second ones and so on.
        slots: the same where each document has a row of its own.
    """

    def __init__(self, spans: Iterator[DocumentSpan], shape: tuple[int, int], device: torch.device) -> None:
        self.spans = sorted(spans, key=lambda span: -span.length) or [DocumentSpan(0, 0, 0, 0)]
        self.shape, self.device = shape, device
        upward = [span.length for span in reversed(self.spans)]
        sizes = [len(upward) - bisect_right(upward, at) for at in range(upward[-1])]
        self.sizes = sizes or [1]  # kernels take no empty sequence
        self.starts = self.there([span.start for span in self.spans])
        # of each step its place within a document and its document; told how many there are, the GPU is not asked
        n, repeats, total = len(sizes), self.there([*sizes, *sizes]), sum(sizes)
        begins = self.there([0, *accumulate(sizes)][:n])
        both = torch.cat([torch.arange(n, device=device), begins]).repeat_interleave(repeats, output_size=2 * total)
        at, document = both[:total], torch.arange(total, device=device) - both[total:]
        self.places = self.starts[document] + at
        self.slots = document * n + at

    def there(self, numbers: list[int]) -> Int[Tensor, " numbers"]:
        """Numbers on the device of the rows, copied while the CPU goes on."""
        return sent(torch.tensor(numbers, dtype=torch.long, device="cpu"), self.device)

    def to_steps(self, x: Shaped[Tensor, "batch length *any"]) -> Shaped[Tensor, "places *any"]:
        """What stands at each step: the data of a PackedSequence."""
        flat = x.flatten(0, 1)
        return flat.index_select(0, self.places) if len(self.places) else flat[:1]

    def to_rows(self, steps: Shaped[Tensor, "places *any"]) -> Shaped[Tensor, "batch length *any"]:
        """The rows that the documents came from, zeros where there was none."""
        out = steps.new_zeros(self.shape[0] * self.shape[1], *steps.shape[1:])
        return out.index_copy(0, self.places, steps[: len(self.places)]).view(*self.shape, *steps.shape[1:])

    def padded(self, x: Shaped[Tensor, "batch length *any"]) -> Shaped[Tensor, "documents longest *any"]:
        """A row for each document, zeros after its end."""
        flat = x.flatten(0, 1)
        out = flat.new_zeros(len(self.spans) * len(self.sizes), *flat.shape[1:])
        out = out.index_copy(0, self.slots, flat.index_select(0, self.places))
        return out.view(len(self.spans), len(self.sizes), *flat.shape[1:])
