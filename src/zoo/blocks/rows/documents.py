"""Documents, not padding: which document each place of a row belongs to, whatever is padded or packed."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Int, Int32, Shaped
from torch import Tensor
from torch.nn import functional as F

from zoo.blocks.rows.sequences import Sequences, found, laid

T = TypeVar("T")
ROOM = 8  # borders for each row of a batch; GPUs look at each, and have memory for it, however short its document is
MOST = 65_535  # documents that a kernel is started for: CUDA's blocks have no larger second coordinate
# Places that flash attention computes at a time, however short a document is; and how many times as long a kernel takes
# for as many of them that is told by a mask which places see which. On an H200: docs/benchmarks.md, "On a GPU".
TILE, MASKED = 128, 2
SHORTEST = 2  # what kernels may be told of the longest document: told 1, flash attention takes no document of length 0


class Computed:
    """Something that layers share, with what has been computed from it."""

    def __init__(self) -> None:
        self.found: dict[Any, Any] = {}

    def once(self, key: Any, compute: Callable[[], T]) -> T:
        """What the first layer that asks computes, and the others find."""
        if key not in self.found:
            self.found[key] = compute()
        return self.found[key]


def positions_of(documents: Int[Tensor, "batch length"]) -> Int[Tensor, "batch length"]:
    """Positions that restart at each document; 0 where there is none.

    A gap in a document (places of document 0) takes up positions, as masked places do in transformers. Step by step
    (`Progress`) it takes up none, as in transformers' `generate`.
    """
    places = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    there = documents > 0
    before = documents.gather(1, torch.where(there, places, 0).cummax(dim=1).values)  # the document last met
    begins = there.clone()
    begins[:, 1:] &= documents[:, 1:] != before[:, :-1]
    starts = torch.where(begins, places, 0).cummax(dim=1).values
    return torch.where(there, places - starts, 0)


class Borders(NamedTuple):
    """Where documents begin and end in all rows laid end to end: the `cu_seqlens` of kernels, which thus need no mask.

    Behind its documents each row has two more of empty places: one of queries without keys, one of keys without
    queries. So kernels write every place, and an empty one sees nothing and is seen by none.

    Args:
        queries, keys: the borders, for rows that ask and for rows that are read.
        longest: no document has more places.
    """

    queries: Int32[Tensor, " borders"]
    keys: Int32[Tensor, " borders"]
    longest: int

    @staticmethod
    def of(rows: Sequence[Sequence[int]], length: int) -> "Borders":
        """Of rows so long, from the lengths of their documents, on the CPU.

        Documents of length 0 fill them up, so that their number changes rarely, and with it no kernel's shapes.
        """
        asking, read, room = list[int](), list[int](), ROOM * max(len(rows), 1)
        for lengths in rows:
            empty = length - sum(lengths)
            asking += [*lengths, empty, 0]
            read += [*lengths, 0, empty]
        while room < len(asking):
            room *= 2
        ends = torch.tensor([asking, read], device="cpu").cumsum(1).int()
        room = max(len(asking), min(room, MOST))
        queries, keys = F.pad(F.pad(ends, (1, 0)), (0, room - len(asking)), value=len(rows) * length)
        return Borders(queries, keys, max(length, SHORTEST))

    @staticmethod
    def of_whole(numbers: Int[Tensor, "batch length"]) -> "Borders":
        """Of rows that are one document each, wherever they lie."""
        (rows, length), device = numbers.shape, numbers.device
        ends = length * torch.arange(rows + 1, dtype=torch.int32, device=device)
        return Borders(ends, ends, max(length, SHORTEST))


class Documents(Computed):
    """Which document each place of a batch's rows belongs to: 0 is none, k the k-th of its row.

    What a packer knows on the CPU belongs here, so that nothing must be read back from the GPU.

    Args:
        numbers: of the documents, by place.
        whole: whether every row is known to be one document without gaps, so that no place needs a mask.
        positions: of the places inside their documents; None: as `positions_of` counts them.
        borders: of documents 1, 2 and so on of each row, one after the other from its first place on; None: not known.
            An attention from rows to rows wants both from the same packer, so that the same documents meet.
        lengths: of documents 1, 2 and so on of each row, laid in the same way; None: not known.

    Attributes:
        crowded: whether rows are known to hold so many documents that to mask them costs less than a tile for each.
            What is compiled may look at this, and not at lengths, which are others in each batch.
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
        tiles = (-(-numbers.shape[1] // TILE)) ** 2
        self.crowded = lengths is not None and sum(map(len, lengths)) > MASKED * tiles * len(lengths)
        if positions is not None:
            self.found["positions"] = positions

    @staticmethod
    def of(
        given: "Int[Tensor, 'batch length'] | Documents | None",
        like: Shaped[Tensor, "batch length *any"],
        name: str = "documents",
    ) -> "Documents":
        """Documents as a caller gives them: None where every row is one, laid out as `like`.

        Raises:
            ValueError: they are not of its places.
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
        """Those of a packer, which knows the lengths of each row's documents."""
        length = numbers.shape[1]
        whole = all(list(lengths) == [length] for lengths in rows)
        return Documents(numbers, whole, borders=Borders.of(rows, length), lengths=rows)

    def each(self, change: Callable[[Tensor], Tensor]) -> "Documents":
        """The same with each tensor changed: copied to a device, or to other memory."""
        borders = self.borders
        if borders is not None:
            borders = Borders(change(borders.queries), change(borders.keys), borders.longest)
        return Documents(change(self.numbers), self.whole, borders=borders, lengths=self.lengths)

    def to(self, device: torch.device | str) -> "Documents":
        """The same on a device, copied while the CPU goes on."""
        return self.each(lambda tensor: tensor.to(device, non_blocking=True))

    def widen(self, places: int) -> "Documents":
        """As many places for each one: a row of pictures, of which each is read as many vectors."""
        borders = self.borders
        if borders is not None:
            borders = Borders(places * borders.queries, places * borders.keys, places * borders.longest)
        lengths = None if self.lengths is None else [[places * one for one in row] for row in self.lengths]
        numbers = self.numbers.repeat_interleave(places, dim=1)
        return Documents(numbers, self.whole, borders=borders, lengths=lengths)

    @property
    def positions(self) -> Int[Tensor, "batch length"]:
        """Positions of the places inside their documents."""
        return self.once("positions", lambda: positions_of(self.numbers))

    @property
    def reach(self) -> int:
        """A bound that every position is below: the longest document's length if it is known, else a row's."""
        if self.lengths is None:
            return self.numbers.shape[1]
        return max((max(lengths, default=0) for lengths in self.lengths), default=0)

    @property
    def most(self) -> int | None:
        """The most documents that a row has; None: not known."""
        return 1 if self.whole else None if self.lengths is None else max(map(len, self.lengths), default=0)

    def sequences(self) -> Sequences:
        """Each document as a sequence of its own."""
        return self.once("sequences", self.find_sequences)

    def find_sequences(self) -> Sequences:
        """From the lengths that are known on the CPU, or else from the numbers, for which a GPU is waited for."""
        rows, length = self.numbers.shape
        lengths = [[length]] * rows if self.whole else self.lengths
        spans = found(self.numbers) if lengths is None else laid(lengths, length)
        return Sequences(spans, (rows, length), self.numbers.device)

    def take(self, rows: Int[Tensor, " chosen"] | slice) -> "Documents":
        """These rows of the batch."""
        return Documents(self.numbers[rows], self.whole)
