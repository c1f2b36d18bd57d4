"""The states that heads read; a part that `picks` computes only the positions that they read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from zoo.models.heads.head import Head, HiddenStates
from zoo.models.heads.pooler import document_means
from zoo.models.kinds.part import Part, PartInput

STEP = 16  # positions: oneDNN compiles and keeps kernels for each number of them, so round it up
HeadsByName = Mapping[str, Head]
PlacesByHead = Mapping[str, Int[Tensor, " places"]]


@dataclass
class Reading:
    """The states that heads read in one batch.

    Args:
        part: computes the states.
        places: by head, the flat positions to read (row * length + position; -1: none); a head without an entry reads
            all positions, or the summary of every document.
        averages: whether a document's summary is the mean of its states instead of the part's own.
        skip_unread: whether a part that `picks` skips the other positions.
    """

    part: Part
    given: PartInput
    places: PlacesByHead
    averages: bool = False
    skip_unread: bool = True

    def run(
        self, heads: HeadsByName, states_of: Callable[[PartInput], Tensor]
    ) -> tuple[Tensor, dict[str, HiddenStates]]:
        """Return the computed states and, by head, those that it reads.

        Args:
            states_of: runs the part.
        """
        picked = self.pick(heads)
        if picked is None:
            states = states_of(self.given)
            return states, {name: self.select(name, head, states) for name, head in heads.items()}
        flat, sizes = torch.cat([*picked.values()]), [len(places) for places in picked.values()]
        if flat.device.type == "cpu":  # on a GPU, counting the distinct positions would wait for it
            flat, where = torch.unique(flat, return_inverse=True)
            left = self.given.tokens.numel() - len(flat)
            flat = F.pad(flat, (0, min(left, -len(flat) % STEP)))  # position 0 again
            states = states_of(replace(self.given, places=flat))[0][where]  # [0]: picked positions come as one row
        else:
            states = states_of(replace(self.given, places=flat))[0]
        return states, dict(zip(picked, torch.split(states, sizes), strict=True))

    def pick(self, heads: HeadsByName) -> dict[str, Int[Tensor, " places"]] | None:
        """Return the flat positions that each head reads; None if the others cannot or need not be skipped."""
        picks = self.part.picks and self.skip_unread
        if not picks or not heads or any(self.reads_all(name, head) for name, head in heads.items()):
            return None
        if sum(len(self.places[name]) for name in heads) >= self.given.tokens.numel():
            return None
        documents = self.given.rows().numbers
        return {
            name: self.part.summary_places(documents, self.places[name])
            if head.scores_documents
            else self.places[name].clamp_min(0)
            for name, head in heads.items()
        }

    def reads_all(self, name: str, head: Head) -> bool:
        """Whether a head may read any position."""
        return name not in self.places or (head.scores_documents and self.averages)

    def select(self, name: str, head: Head, states: Tensor) -> HiddenStates:
        """Return what a head reads, given the states of all positions (batch, length, d_model)."""
        places = self.places.get(name)
        if head.scores_documents:
            rows = self.given.rows()
            chosen = self.part.document_places(rows.numbers) if places is None else places
            if self.averages:
                return document_means(states, rows.numbers, chosen, rows.max_documents)
            return self.part.summarize(states, rows.numbers, chosen)
        # not states[places]: in its backward pass a GPU adds up one by one the many that are none (clamped to 0)
        return states if places is None else states.flatten(0, 1).index_select(0, places.clamp_min(0))
