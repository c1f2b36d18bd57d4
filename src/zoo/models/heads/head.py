"""Slot `head`: what scores the states. Supplied: d_model, vocab_size, pooled."""

from abc import ABC, abstractmethod
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from zoo.models.heads.scores import Scores
from zoo.registry import Slot

Scored = Float[Tensor, "*places d_model"]
Table = Float[Tensor, "vocab_size width"]
Logits = Float[Tensor, "*places n"]


class Head(nn.Module, ABC):
    """Scores vectors: one for each place it is asked for.

    Class attributes:
        scores_documents: whether it scores documents (one vector each) instead of tokens.
        picks_places: whether each kind of its scores, such as that of an answer's end, picks one place of a document.
        pools_places: whether it scores what the pooler makes of each place, in models whose pooler reads places.
        guesses: whether it guesses hidden tokens; beside a head that `detects` guesses, it belongs to the generator.
        detects: whether it tells a generator's guesses from a text's own tokens.
    """

    scores_documents: ClassVar[bool] = False
    picks_places: ClassVar[bool] = False
    pools_places: ClassVar[bool] = False
    guesses: ClassVar[bool] = False
    detects: ClassVar[bool] = False

    @property
    def ends_in_table(self) -> bool:
        """Whether its last map is the matrix of token vectors."""
        return False

    @abstractmethod
    def score(self, states: Scored, table: Table) -> Scores:
        """The last linear map and what it maps; `table` is the matrix of token vectors, for heads tied to it."""

    def forward(self, states: Scored, table: Table) -> Logits:
        """The logits, multiplied out."""
        return self.score(states, table).logits()


heads: Slot[Head] = Slot("head")
