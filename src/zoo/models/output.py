"""What a model says."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from zoo.models.heads.scores import Scores
from zoo.wording import refuse_unknown

WEIGHTS = ("encoder.self", "decoder.self", "decoder.cross")  # kinds of attention weights


@dataclass
class Output:
    """What a model says.

    Args:
        states: what the heads score, one vector a place (batch, length, d_model); or the vectors of some places alone
            (places, d_model), where every head has `places` and the model leaves out what nobody reads.
        scores: by head.
        weights: attention weights (batch, heads, queries, keys) by "encoder.self", "decoder.self" and "decoder.cross",
            one entry a layer (None where its mixer has none); None unless asked for.
        read: the tokens, with what the generator guessed at the hidden places; None where nothing was guessed.
    """

    states: Tensor
    scores: dict[str, Scores]
    weights: dict[str, list[Tensor | None]] | None = None
    read: Tensor | None = None

    @cached_property
    def heads(self) -> dict[str, Tensor]:
        """Logits by head."""
        return {name: scores.logits() for name, scores in self.scores.items()}

    @property
    def logits(self) -> Tensor:
        """The first head's."""
        return self.heads[next(iter(self.scores))]


def kinds_of(weights: bool | str | Collection[str]) -> Collection[str]:
    """The kinds of attention weights that are asked for.

    Raises:
        ValueError: one of them is none.
    """
    kinds = WEIGHTS if weights is True else (weights,) if isinstance(weights, str) else weights or ()
    for kind in kinds:
        refuse_unknown(str(kind), WEIGHTS, "kind", "weights")
    return kinds
