"""How the next token is chosen: what sampling and beams have in common."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor

NextLogits = Float[Tensor, "sequences vocab_size"]
NextTokens = Int[Tensor, " sequences"]
NOTHING = -1  # no token: what stands behind the end of a text


class Generated(NamedTuple):
    """New tokens (the end token left out) and their score: log-probability / length ** length_penalty.

    Args:
        full: whether they end because the model can read no further.
    """

    tokens: list[int]
    score: float
    full: bool = False


class Search(ABC):
    """Chooses tokens for rows of `width` sequences each; nothing in it waits for the device until `results` is asked.

    Attributes:
        ended: of each row, whether nothing better can come. Such a row may go on: what is chosen for it counts no more.
    """

    width: int
    ended: Bool[Tensor, " rows"]

    @abstractmethod
    def choose(self, logits: NextLogits) -> tuple[NextTokens, NextTokens | None]:
        """The next token of each sequence, and which sequences they continue (None: each its own)."""

    @abstractmethod
    def take(self, rows: Int[Tensor, " kept"]) -> None:
        """Go on with these rows alone."""

    @abstractmethod
    def results(self) -> list[Generated]:
        """The best sequence of each row."""


def damage(logits: NextLogits) -> Float[Tensor, " sequences"]:
    """Return 0 for each sequence, and NaN where one of its logits is -inf, to be added to its score.

    A log-softmax shows NaN and +inf by itself, but takes -inf for a token that never comes.
    """
    return logits.amin(-1).float() * 0.0
