"""Documents, not padding: which document each place of a row belongs to, whatever is padded or packed."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

T = TypeVar("T")


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
    """Positions that restart at each document; 0 where there is none."""
    places = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    starts = torch.where(begins, places, 0).cummax(dim=1).values
    return torch.where(documents > 0, places - starts, 0)


class Unpacked:
    """The documents of packed rows, each in a row of its own, in reading order.

    Where there is no document at all, one of length 0 stands for it.

    Attributes:
        lengths: of the documents (places).
        rows, numbers: which row each document stands in, and which document of that row it is.
    """

    def __init__(self, documents: Int[Tensor, "batch length"]) -> None:
        self.real = documents > 0
        begins = self.real & (positions_of(documents) == 0)
        order = begins.flatten().cumsum(0) - 1
        self.lengths = torch.bincount(order[self.real.flatten()], minlength=1)
        places = begins.flatten().nonzero()[:, 0]
        places = places if len(places) else places.new_zeros(1)
        self.rows, self.numbers = places // documents.shape[1], documents.flatten()[places]
        longest = max(int(self.lengths.max()), 1)
        self.inside = torch.arange(longest, device=documents.device) < self.lengths[:, None]

    def unpack(self, x: Shaped[Tensor, "batch length *any"]) -> Shaped[Tensor, "documents longest *any"]:
        """A row for each document, zeros after its end."""
        out = x.new_zeros(*self.inside.shape, *x.shape[2:])
        out[self.inside] = x[self.real]
        return out

    def pack(self, x: Shaped[Tensor, "documents longest *any"]) -> Shaped[Tensor, "batch length *any"]:
        """The rows that the documents came from, zeros where there was none."""
        out = x.new_zeros(*self.real.shape, *x.shape[2:])
        out[self.real] = x[self.inside]
        return out

    def sequence(self, x: Float[Tensor, "batch length width"]) -> PackedSequence:
        """The documents as torch's recurrent kernels take them."""
        # torch sorts the sequences by length, which it wants to know on the CPU; a length of 0 is an error there
        lengths = self.lengths.clamp_min(1).cpu()
        return pack_padded_sequence(self.unpack(x), lengths, batch_first=True, enforce_sorted=False)

    def from_sequence(self, x: PackedSequence) -> Float[Tensor, "batch length width"]:
        """The rows that the documents came from."""
        return self.pack(pad_packed_sequence(x, batch_first=True, total_length=self.inside.shape[1])[0])


class Documents(Computed):
    """Which document each place of a batch's rows belongs to: 0 is none, k the k-th of its row.

    What a packer knows on the CPU belongs here: with the bounds of all documents beside the numbers (`cu_seqlens`, of a
    fixed length), a backend need not read them back from the GPU, nor torch.compile compile for each count of them.

    Args:
        numbers: of the documents, by place.
        whole: whether every row is known to be one document without gaps, so that no place needs a mask.
        positions: of the places inside their documents; None: as `positions_of` counts them.
    """

    def __init__(
        self,
        numbers: Int[Tensor, "batch length"],
        whole: bool = False,
        positions: Int[Tensor, "batch length"] | None = None,
    ) -> None:
        super().__init__()
        self.numbers, self.whole = numbers, whole
        if positions is not None:
            self.found["positions"] = positions

    @staticmethod
    def of(numbers: Int[Tensor, "batch length"] | None, like: Shaped[Tensor, "batch length *any"]) -> "Documents":
        """Documents as a caller gives them: None where every row is one, laid out as `like`."""
        if numbers is None:
            return Documents(torch.ones(like.shape[:2], dtype=torch.long, device=like.device), whole=True)
        return Documents(numbers)

    @property
    def positions(self) -> Int[Tensor, "batch length"]:
        """Positions of the places inside their documents."""
        return self.once("positions", lambda: positions_of(self.numbers))

    def unpacked(self) -> Unpacked | None:
        """Each document in a row of its own; None where it stands so already.

        So a model without documents runs on the meta device, too, where lengths cannot be read and costs are counted.
        """
        return None if self.whole else self.once("unpacked", lambda: Unpacked(self.numbers))

    def take(self, rows: Int[Tensor, " chosen"] | slice) -> "Documents":
        """These rows of the batch."""
        return Documents(self.numbers[rows], self.whole)
