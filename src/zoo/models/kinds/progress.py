"""How far the rows of a batch have been read in step-by-step decoding."""

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.blocks.mixer import copy_state
from zoo.blocks.rows.cache import RowIndex
from zoo.blocks.rows.documents import Documents
from zoo.blocks.rows.view import Visibility

ROOM = 64  # positions allocated first, if it is not known how many there will be


class Progress:
    """The documents of all positions so far, in a preallocated tensor, and the length of each row's text.

    Args:
        rows: number of rows in the batch.
        room: the most positions that a row will have; None: not known, so the tensor grows as needed.
        device: of the tokens.

    Attributes:
        numbers: document of each position (rows, room); 0: padding, or not written yet.
        lengths: tokens of each row's text so far, without padding (rows, 1).
        read: positions per row so far, padding included; all of `room` after `settle`.
        whole: whether no position is padding.
        place: position of the next token, on the device, after `settle`; None before: the host counts.
    """

    def __init__(self, rows: int, room: int | None, device: torch.device) -> None:
        self.has_fixed_room = room is not None
        self.numbers = torch.zeros(rows, room or ROOM, dtype=torch.long, device=device)
        self.lengths = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self.read, self.whole = 0, True
        self.place: RowIndex | None = None

    @property
    def room(self) -> int:
        """Positions allocated per row."""
        return self.numbers.shape[1]

    def advance(self, documents: Int[Tensor, "rows new"] | None, new: Int[Tensor, "rows new"]) -> Visibility:
        """Append new positions and return what they see: those before them. `documents`: None if none is padding."""
        here = Documents.of(documents, new)
        start = self.record(here.numbers)
        counts = here.numbers.clamp_max(1).cumsum(1)
        at = (self.lengths + counts - 1).clamp_min(0)
        self.lengths += counts[:, -1:]
        self.whole = self.whole and here.whole
        # after `settle`, positions not written yet are read too: their document 0 hides them
        seen = Documents(self.numbers[:, : self.read], self.whole and self.place is None)
        return Visibility(Documents(here.numbers, self.whole, at), seen, start, causal=True)

    def record(self, numbers: Int[Tensor, "rows new"]) -> int | RowIndex:
        """Record the documents of new positions; return the first new position."""
        if self.place is not None:
            self.numbers.index_copy_(1, self.place[None], numbers)
            self.place += 1
            return self.place - 1
        start, self.read = self.read, self.read + numbers.shape[1]
        if self.read > self.room:
            more = max(self.read, 2 * self.room) - self.room
            self.numbers = torch.cat([self.numbers, self.numbers.new_zeros(len(numbers), more)], dim=1)
        self.numbers[:, start : self.read] = numbers
        return start

    def settle(self) -> None:
        """Keep to the same tensors from now on, as `Decoder.settle` demands."""
        assert self.has_fixed_room and self.read, "only where the room is known and a first step has been taken"
        self.place = self.lengths.new_full((), self.read)
        self.read = self.room

    def take(self, rows: Int[Tensor, " chosen"]) -> None:
        """Keep only these rows, in this order."""
        kept = self.numbers.index_select(0, rows), self.lengths.index_select(0, rows)
        self.numbers, self.lengths = kept if self.reallocates(rows) else copy_state(kept, (self.numbers, self.lengths))

    def reallocates(self, rows: Int[Tensor, " chosen"]) -> bool:
        """Whether a state with these rows gets new tensors; after `settle`, only if the number of rows changes."""
        return self.place is None or len(rows) != len(self.numbers)
