"""How far the rows of a batch have been read, where they are read step by step."""

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.blocks.documents import Documents
from zoo.blocks.view import Visibility

ROOM = 64  # places at first, where nobody says how many there will be


class Progress:
    """The documents of all places so far, in a tensor that is written in place, and how long each row's text is.

    Args:
        rows: of the batch.
        room: the most places that a row will have; None: not known, so that there is more as it is needed.
        device: of the tokens.
    """

    def __init__(self, rows: int, room: int | None, device: torch.device) -> None:
        self.promised = room is not None
        self.numbers = torch.zeros(rows, room or ROOM, dtype=torch.long, device=device)
        self.lengths = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self.read, self.whole = 0, True

    @property
    def room(self) -> int:
        """Places that a row may have."""
        return self.numbers.shape[1]

    def advance(self, documents: Int[Tensor, "rows new"] | None, new: Int[Tensor, "rows new"]) -> Visibility:
        """Go on by new places, which see those before them; `documents`: None where every place belongs to the text."""
        start, self.read = self.read, self.read + new.shape[1]
        if self.read > self.room:
            more = max(self.read, 2 * self.room) - self.room
            self.numbers = torch.cat([self.numbers, self.numbers.new_zeros(len(new), more)], dim=1)
        here = Documents.of(documents, new)
        self.numbers[:, start : self.read] = here.numbers
        counts = here.numbers.clamp_max(1).cumsum(1)
        at = (self.lengths + counts - 1).clamp_min(0)
        self.lengths = self.lengths + counts[:, -1:]
        self.whole = self.whole and here.whole
        seen = Documents(self.numbers[:, : self.read], self.whole)
        return Visibility(Documents(here.numbers, self.whole, at), seen, start, causal=True)

    def take(self, rows: Int[Tensor, " chosen"]) -> None:
        """Continue with these rows."""
        self.numbers, self.lengths = self.numbers.index_select(0, rows), self.lengths.index_select(0, rows)
