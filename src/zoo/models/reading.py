"""What heads read of a part's states: a part that picks computes the places that they read, and no others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from zoo.models.heads.head import Head, Scored
from zoo.models.heads.pooler import average
from zoo.models.kinds.part import Part, PartInput

STEP = 16  # places: for each number of them oneDNN would compile kernels, and remember them
HeadsByName = Mapping[str, Head]
PlacesByHead = Mapping[str, Int[Tensor, " places"]]


@dataclass
class Reading:
    """What heads read of the states of one batch.

    Args:
        part: whose states they are.
        places: by head, flat places (row * length + place), -1 none; a head without an entry reads all places, or the
            summary of every document.
        averages: whether a document's summary is the mean of its states, whatever the part's is.
        skip_unread: whether a part that picks leaves out other places; false: it computes all.
    """

    part: Part
    given: PartInput
    places: PlacesByHead
    averages: bool = False
    skip_unread: bool = True

    def run(self, heads: HeadsByName, states_of: Callable[[PartInput], Tensor]) -> tuple[Tensor, dict[str, Scored]]:
        """The states that were computed, and what each head reads of them.

        Args:
            states_of: the part.
        """
        picked = self.pick(heads)
        if picked is None:
            states = states_of(self.given)
            return states, {name: self.select(name, head, states) for name, head in heads.items()}
        flat, sizes = torch.cat([*picked.values()]), [len(places) for places in picked.values()]
        if flat.device.type == "cpu":  # a GPU would have to be asked how many different places there are
            flat, where = torch.unique(flat, return_inverse=True)
            left = self.given.tokens.numel() - len(flat)
            flat = F.pad(flat, (0, min(left, -len(flat) % STEP)))  # with the first place
            states = states_of(replace(self.given, places=flat))[0][where]
        else:
            states = states_of(replace(self.given, places=flat))[0]
        return states, dict(zip(picked, torch.split(states, sizes), strict=True))

    def pick(self, heads: HeadsByName) -> dict[str, Int[Tensor, " places"]] | None:
        """By head, the flat places whose states it reads; None: as many as there are, or the part computes all."""
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
        """Whether a head may read any place."""
        return name not in self.places or (head.scores_documents and self.averages)

    def select(self, name: str, head: Head, states: Tensor) -> Scored:
        """What a head reads of the states of all places."""
        places = self.places.get(name)
        if head.scores_documents:
            rows = self.given.rows()
            chosen = self.part.document_places(rows.numbers) if places is None else places
            if self.averages:
                return average(states, rows.numbers, chosen, rows.most)
            return self.part.summarize(states, rows.numbers, chosen)
        # not states[places], whose gradient a GPU adds up one by one for the many places that are none
        return states if places is None else states.flatten(0, 1).index_select(0, places.clamp_min(0))
