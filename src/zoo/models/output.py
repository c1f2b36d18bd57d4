"""The output of a model."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from zoo.models.heads.scores import Scores
from zoo.wording import refuse_unknown

WEIGHTS = ("encoder.self", "decoder.self", "decoder.cross")  # kinds of attention weights


@dataclass
class Output:
    """The output of a model.

    Args:
        states: final hidden states (batch, length, d_model); or only those of the scored positions (positions,
            d_model), if every head has `places` and the model skips the others.
        scores: by head.
        weights: attention weights (batch, heads, queries, keys) by "encoder.self", "decoder.self" and "decoder.cross",
            one entry per layer (None if its mixer has none); None unless requested.
        read: the tokens with the generator's guesses at masked positions; None if nothing was guessed.
    """

    states: Tensor
    scores: dict[str, Scores]
    weights: dict[str, list[Tensor | None]] | None = None
    read: Tensor | None = None

    @cached_property
    def heads(self) -> dict[str, Tensor]:
        """Logits by head (*places, classes)."""
        return {name: scores.logits() for name, scores in self.scores.items()}

    @property
    def logits(self) -> Tensor:
        """Logits of the first head."""
        return self.heads[next(iter(self.scores))]


def kinds_of(weights: bool | str | Collection[str]) -> Collection[str]:
    """Return the requested kinds of attention weights.

    Raises:
        ValueError: an unknown kind.
    """
    if weights is True:
        return WEIGHTS
    kinds = (weights,) if isinstance(weights, str) else weights or ()
    for kind in kinds:
        refuse_unknown(str(kind), WEIGHTS, "kind", "weights")
    return kinds
