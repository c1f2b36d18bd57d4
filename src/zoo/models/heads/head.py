"""Slot `head`: computes logits from hidden states. Supplied: d_model, vocab_size, pooled."""

from abc import ABC, abstractmethod
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from zoo.models.heads.scores import Scores
from zoo.registry import Choice, Slot

HiddenStates = Float[Tensor, "*places d_model"]
EmbeddingMatrix = Float[Tensor, "vocab_size width"]
Logits = Float[Tensor, "*places n"]


class Head(nn.Module, ABC):
    """Computes logits from vectors: hidden states of scored positions, or summaries of documents.

    Class attributes:
        scores_documents: whether it scores documents (one vector each) instead of tokens.
        softmax_over_positions: whether its softmax runs over the positions of a document, as for an answer's end.
        pools_positions: whether it reads each position's pooled state, in models with `pooler.places`.
        guesses: whether it predicts masked tokens; beside a head that `detects` guesses, it belongs to the generator.
        detects: whether it tells a generator's guesses from the original tokens.
    """

    scores_documents: ClassVar[bool] = False
    softmax_over_positions: ClassVar[bool] = False
    pools_positions: ClassVar[bool] = False
    guesses: ClassVar[bool] = False
    detects: ClassVar[bool] = False

    @property
    def ends_in_table(self) -> bool:
        """Whether its last linear layer is the token embedding matrix (tied weights)."""
        return False

    @abstractmethod
    def score(self, states: HiddenStates, token_embeddings: EmbeddingMatrix) -> Scores:
        """Return the logits, not yet multiplied out; tied heads score with `token_embeddings`."""

    def forward(self, states: HiddenStates, token_embeddings: EmbeddingMatrix) -> Logits:
        """Compute the logits."""
        return self.score(states, token_embeddings).logits()


heads: Slot[Head] = Slot("head")


def has_classes(name: str) -> bool:
    """Whether a head has an output for each class of the task: as many as its option `labels` says."""
    return "labels" in heads.options(name)


def refuse_other_width(choice: Choice[Head], d_model: int, width: int) -> None:
    """Check that a head that ends in the token embedding matrix makes vectors of its width.

    Args:
        d_model: of the states that the head reads.
        width: of the token embeddings.

    Raises:
        ValueError: it makes others.
    """
    own = choice.options.get("width") or d_model
    if own != width:
        hint = "; leave out its width" if "width" in choice.options else ""
        raise ValueError(f"heads.{choice.name}: its vectors are {own} wide, but the token embeddings {width}{hint}")
