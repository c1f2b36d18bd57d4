"""How the next token is chosen: the interface of sampling and beam search."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor

NextLogits = Float[Tensor, "sequences vocab_size"]
NextTokens = Int[Tensor, " sequences"]
NO_TOKEN = -1  # no token: fills the positions after the end of a text


class Generated(NamedTuple):
    """New tokens (without the end token) and their score: log-probability / length ** length_penalty.

    Args:
        full: whether the text was cut off at the model's `max_length`.
    """

    tokens: list[int]
    score: float
    full: bool = False


class Search(ABC):
    """Chooses tokens for rows of `width` sequences each. Only `results` waits for the device.

    Attributes:
        ended: per row, whether its result is final. Such a row may stay in the batch: tokens chosen for it are ignored.
    """

    width: int
    ended: Bool[Tensor, " rows"]

    @abstractmethod
    def choose(self, logits: NextLogits) -> tuple[NextTokens, NextTokens | None]:
        """Return the next token of each sequence, and the index of the sequence it continues (None: its own)."""

    @abstractmethod
    def take(self, rows: Int[Tensor, " kept"]) -> None:
        """Keep only these rows."""

    @abstractmethod
    def results(self) -> list[Generated]:
        """Return the best sequence of each row."""


def nan_if_infinite(logits: NextLogits) -> Float[Tensor, " sequences"]:
    """Return 0 per sequence, or NaN where one of its logits is -inf, to be added to its score.

    Damaged weights must show in the score. A log-softmax propagates NaN and +inf, but takes -inf for probability 0.
    """
    return logits.amin(-1).float() * 0.0
