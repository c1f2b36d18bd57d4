"""How the next token is chosen: what sampling and beams have in common."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

NextLogits = Float[Tensor, "sequences vocab_size"]
NextTokens = Int[Tensor, " sequences"]


class Generated(NamedTuple):
    """New tokens (the end token left out) and their score: log-probability / length ** length_penalty."""

    tokens: list[int]
    score: float


class Search(ABC):
    """Chooses tokens for `rows` rows of `width` sequences each, until done."""

    width: int

    @abstractmethod
    def choose(self, logits: NextLogits) -> tuple[NextTokens, NextTokens | None]:
        """The next token of each sequence, and which sequences they continue (None: each its own)."""

    @abstractmethod
    def running(self) -> list[bool]:
        """Of each row, whether something better can still come."""

    @abstractmethod
    def results(self) -> list[Generated]:
        """The best sequence of each row."""
