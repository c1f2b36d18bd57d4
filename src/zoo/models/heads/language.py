"""Head `language`: logits of the next token."""

import torch
from torch import nn

from zoo.models.heads.head import EmbeddingMatrix, Head, HiddenStates, heads
from zoo.models.heads.scores import Scores


@heads.register("language")
class LanguageHead(Head):
    """Logits of the next token: x E', with the token embeddings E or a matrix of its own.

    Source: Press & Wolf 2017, arXiv:1608.05859; Vaswani et al. 2017, section 3.4.

    Args:
        tied: whether E is the token embedding matrix.
        bias: whether a learned bias is added.
        scale: divide x by sqrt(d_model), for token embeddings initialized with standard deviation 1 (Raffel et al.
            2020, arXiv:1910.10683; T5's code).
    """

    def __init__(
        self,
        d_model: int,
        vocab_size: int,
        pooled: bool,
        *,
        tied: bool = True,
        bias: bool = False,
        scale: bool = False,
    ) -> None:
        super().__init__()
        self.output = None if tied else nn.Linear(d_model, vocab_size, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if bias else None
        self.factor = d_model**-0.5 if scale else 1.0

    @property
    def ends_in_table(self) -> bool:
        return self.output is None

    def score(self, states: HiddenStates, token_embeddings: EmbeddingMatrix) -> Scores:
        states = states if self.factor == 1.0 else states * self.factor
        if self.output is None:
            return Scores(states, token_embeddings, self.bias)
        return Scores.from_linear(self.output, states, self.bias)
