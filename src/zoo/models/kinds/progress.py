"""How far the rows of a batch have been read, where they are read step by step."""

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.blocks.mixer import written
from zoo.blocks.rows.cache import Place
from zoo.blocks.rows.documents import Documents
from zoo.blocks.rows.view import Visibility

ROOM = 64  # places at first, where nobody says how many there will be


class Progress:
    """The documents of all places so far, in a tensor that is written in place, and how long each row's text is.

    Args:
        rows: of the batch.
        room: the most places that a row will have; None: not known, so that there is more as it is needed.
        device: of the tokens.

    Attributes:
        place: of the next token, in the steady form (`Decoder.settle`); None: the host counts.
    """

    def __init__(self, rows: int, room: int | None, device: torch.device) -> None:
        self.promised = room is not None
        self.numbers = torch.zeros(rows, room or ROOM, dtype=torch.long, device=device)
        self.lengths = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self.read, self.whole = 0, True
        self.place: Place | None = None

    @property
    def room(self) -> int:
        """Places that a row may have."""
        return self.numbers.shape[1]

    def advance(self, documents: Int[Tensor, "rows new"] | None, new: Int[Tensor, "rows new"]) -> Visibility:
        """Go on by new places, which see those before them; `documents`: None where every place belongs to the text."""
        here = Documents.of(documents, new)
        start = self.note(here.numbers)
        counts = here.numbers.clamp_max(1).cumsum(1)
        at = (self.lengths + counts - 1).clamp_min(0)
        self.lengths += counts[:, -1:]
        self.whole = self.whole and here.whole
        # in the steady form there are places that nobody has written: their document 0 hides them
        seen = Documents(self.numbers[:, : self.read], self.whole and self.place is None)
        return Visibility(Documents(here.numbers, self.whole, at), seen, start, causal=True)

    def note(self, numbers: Int[Tensor, "rows new"]) -> int | Place:
        """Write down the documents of new places, and return the first of these."""
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
        """Take the steady form."""
        assert self.promised and self.read, "only where the room is known and a first step has been taken"
        self.place = self.lengths.new_full((), self.read)
        self.read = self.room

    def take(self, rows: Int[Tensor, " chosen"]) -> None:
        """Continue with these rows."""
        kept = self.numbers.index_select(0, rows), self.lengths.index_select(0, rows)
        self.numbers, self.lengths = kept if self.moves(rows) else written(kept, (self.numbers, self.lengths))

    def moves(self, rows: Int[Tensor, " chosen"]) -> bool:
        """Whether a state with these rows is in other tensors; in the steady form only if their number changes."""
        return self.place is None or len(rows) != len(self.numbers)
