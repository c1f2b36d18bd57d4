"""Documents: the number of the document that each position of a row belongs to, for padded and packed rows alike."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Int, Int32, Shaped
from torch import Tensor
from torch.nn import functional as F

from zoo.blocks.rows.sequences import Sequences, spans_from_lengths, spans_from_numbers

T = TypeVar("T")
ROOM = 8  # borders reserved per row; few, since kernels spend time and memory on every document, empty ones included
MAX_DOCUMENTS = 65_535  # documents per kernel launch: the limit of the second dimension of a CUDA grid
# TILE: positions in a tile of flash attention; a shorter document still costs a whole tile. MASKED_TILE_COST: how many
# times as long a kernel with a mask takes per tile. Measured on an H200: docs/benchmarks.md, "On a GPU".
TILE, MASKED_TILE_COST = 128, 2
MIN_MAX_SEQLEN = 2  # least `max_seqlen` passed to kernels: with 1, flash attention fails on documents of length 0


class SharedCache:
    """Base of objects that layers share: caches what is computed from them."""

    def __init__(self) -> None:
        self.cache: dict[Any, Any] = {}

    def cached(self, key: Any, compute: Callable[[], T]) -> T:
        """Return the cached value for a key; the first layer that needs it computes it."""
        if key not in self.cache:
            self.cache[key] = compute()
        return self.cache[key]


def positions_of(documents: Int[Tensor, "batch length"]) -> Int[Tensor, "batch length"]:
    """Position of each token within its document, counted from 0; 0 where there is no document.

    Padding inside a document (document 0 between two of its tokens) is counted, as transformers counts masked tokens.
    Step by step (`Progress`) it is not counted, as in transformers' `generate`.
    """
    places = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    there = documents > 0
    before = documents.gather(1, torch.where(there, places, 0).cummax(dim=1).values)  # last document up to here
    begins = there.clone()
    begins[:, 1:] &= documents[:, 1:] != before[:, :-1]
    starts = torch.where(begins, places, 0).cummax(dim=1).values
    return torch.where(there, places - starts, 0)


class Borders(NamedTuple):
    """Borders of the documents in the concatenated rows: the `cu_seqlens` of variable-length kernels.

    The padding at the end of a row becomes two more documents: one with queries but no keys, one with keys but no
    queries. So kernels write an output for every position, and padding neither attends nor is attended to.

    Args:
        queries, keys: cumulative lengths, from 0, for a batch that gives the queries and for one that gives the keys.
        longest: an upper bound of the documents' lengths (tokens), the `max_seqlen` of kernels.
    """

    queries: Int32[Tensor, " borders"]
    keys: Int32[Tensor, " borders"]
    longest: int

    @staticmethod
    def of(rows: Sequence[Sequence[int]], length: int) -> "Borders":
        """Compute the borders on the CPU, from the lengths of each row's documents and the length of a row.

        Documents of length 0 are appended up to a rounded number, so that the shapes seen by kernels rarely change.
        """
        asking, read, room = list[int](), list[int](), ROOM * max(len(rows), 1)
        for lengths in rows:
            empty = length - sum(lengths)
            asking += [*lengths, empty, 0]
            read += [*lengths, 0, empty]
        while room < len(asking):
            room *= 2
        ends = torch.tensor([asking, read], device="cpu").cumsum(1).int()
        # documents appended for a stable shape must not push a launch over its limit
        room = max(len(asking), min(room, MAX_DOCUMENTS))
        queries, keys = F.pad(F.pad(ends, (1, 0)), (0, room - len(asking)), value=len(rows) * length)
        return Borders(queries, keys, max(length, MIN_MAX_SEQLEN))

    @staticmethod
    def of_whole(numbers: Int[Tensor, "batch length"]) -> "Borders":
        """Borders of rows that are one document each, computed on the device of the rows."""
        (rows, length), device = numbers.shape, numbers.device
        ends = length * torch.arange(rows + 1, dtype=torch.int32, device=device)
        return Borders(ends, ends, max(length, MIN_MAX_SEQLEN))


def prefers_mask(documents: Sequence[int], length: int) -> bool:
    """Whether a mask is cheaper than a tile per document, or the only way as a kernel launch takes no more documents.

    Args:
        documents: their number in each row.
        length: of a row.
    """
    count, tiles = sum(documents), len(documents) * (-(-length // TILE)) ** 2
    too_many = count + 2 * len(documents) > MAX_DOCUMENTS  # `Borders` adds two per row
    return too_many or count > MASKED_TILE_COST * tiles


class Documents(SharedCache):
    """The document that each position of a batch belongs to: 0 for none (padding), k for the k-th document of its row.

    Facts that the packer knows on the CPU are kept here, so that nothing is read back from the GPU.

    Args:
        numbers: the document's number, per position.
        whole: whether every row is known to be one document without padding, so that documents need no mask.
        positions: position of each token within its document; None: as `positions_of` counts them.
        borders: of documents 1, 2, … of each row, which lie back to back from the row's start; None: unknown. For
            attention between two batches, both must have the same documents in the same order.
        lengths: of the same documents (tokens), row by row; None: unknown.

    Attributes:
        prefers_mask: whether rows are known to hold so many documents that a mask is cheaper than a tile per document,
            or the only way. Compiled code may depend on this, but not on lengths: those differ in each batch and would
            recompile it.
    """

    def __init__(
        self,
        numbers: Int[Tensor, "batch length"],
        whole: bool = False,
        positions: Int[Tensor, "batch length"] | None = None,
        borders: Borders | None = None,
        lengths: Sequence[Sequence[int]] | None = None,
    ) -> None:
        super().__init__()
        self.numbers, self.whole, self.borders, self.lengths = numbers, whole, borders, lengths
        self.prefers_mask = lengths is not None and prefers_mask(list(map(len, lengths)), numbers.shape[1])
        if positions is not None:
            self.cache["positions"] = positions

    @staticmethod
    def of(
        given: "Int[Tensor, 'batch length'] | Documents | None",
        like: Shaped[Tensor, "batch length *any"],
        name: str = "documents",
    ) -> "Documents":
        """Documents of `like` from what a caller passes: None means one document per row.

        Raises:
            ValueError: `given` has another batch size or length than `like`.
        """
        if given is None:
            return Documents(torch.ones(like.shape[:2], dtype=torch.long, device=like.device), whole=True)
        documents = given if isinstance(given, Documents) else Documents(given)
        if documents.numbers.shape != like.shape[:2]:
            expected, got = tuple(like.shape[:2]), tuple(documents.numbers.shape)
            raise ValueError(f"{name}: expected one number per position, {expected}, got {got}")
        return documents

    @staticmethod
    def packed(rows: Sequence[Sequence[int]], numbers: Int[Tensor, "batch length"]) -> "Documents":
        """Documents of packed rows, given the lengths of each row's documents."""
        length = numbers.shape[1]
        whole = all(list(lengths) == [length] for lengths in rows)
        return Documents(numbers, whole, borders=Borders.of(rows, length), lengths=rows)

    def map_tensors(self, change: Callable[[Tensor], Tensor]) -> "Documents":
        """Return a copy with `change` applied to each tensor, for example a copy to a device or to pinned memory."""
        borders = self.borders
        if borders is not None:
            borders = Borders(change(borders.queries), change(borders.keys), borders.longest)
        return Documents(change(self.numbers), self.whole, borders=borders, lengths=self.lengths)

    def to(self, device: torch.device | str) -> "Documents":
        """Return a copy on a device; the copy is asynchronous where the memory is pinned."""
        return self.map_tensors(lambda tensor: tensor.to(device, non_blocking=True))

    def repeat_positions(self, places: int) -> "Documents":
        """Repeat every position `places` times: each image of a row becomes that many vectors."""
        borders = self.borders
        if borders is not None:
            borders = Borders(places * borders.queries, places * borders.keys, places * borders.longest)
        lengths = None if self.lengths is None else [[places * one for one in row] for row in self.lengths]
        numbers = self.numbers.repeat_interleave(places, dim=1)
        return Documents(numbers, self.whole, borders=borders, lengths=lengths)

    @property
    def positions(self) -> Int[Tensor, "batch length"]:
        """Position of each token within its document."""
        return self.cached("positions", lambda: positions_of(self.numbers))

    @property
    def position_bound(self) -> int:
        """Exclusive upper bound of all positions: the length of the longest document if known, else of a row."""
        if self.lengths is None:
            return self.numbers.shape[1]
        return max((max(lengths, default=0) for lengths in self.lengths), default=0)

    @property
    def max_documents(self) -> int | None:
        """The largest number of documents in a row; None: unknown."""
        if self.whole:
            return 1
        return None if self.lengths is None else max(map(len, self.lengths), default=0)

    def sequences(self) -> Sequences:
        """The documents as separate sequences, for recurrent kernels."""
        return self.cached("sequences", self.find_sequences)

    def find_sequences(self) -> Sequences:
        """Build the sequences from lengths known on the CPU, else from the numbers, which waits for the GPU."""
        rows, length = self.numbers.shape
        lengths = [[length]] * rows if self.whole else self.lengths
        spans = spans_from_numbers(self.numbers) if lengths is None else spans_from_lengths(lengths, length)
        return Sequences(spans, (rows, length), self.numbers.device)

    def select_rows(self, rows: Int[Tensor, " chosen"] | slice) -> "Documents":
        """Select rows of the batch; borders and lengths are dropped."""
        return Documents(self.numbers[rows], self.whole)
