"""Head `masked_lm`: logits of the original token at a masked position."""

import torch
from torch import nn

from zoo.blocks.activation import ActivationOption, activations
from zoo.blocks.norm import NormOption, norms
from zoo.models.heads.head import EmbeddingMatrix, Head, HiddenStates, heads
from zoo.models.heads.scores import Scores


@heads.register("masked_lm")
class MaskedLMHead(Head):
    """norm(f(x W + b)) E' + c, with the token embeddings E.

    Source: Devlin et al. 2019, arXiv:1810.04805; the authors' code. Without b: ModernBERT. W projects the states to the
    width of the token embeddings if that differs, as in ELECTRA.

    Args:
        activation: f, a registered activation.
        norm: a registered norm.
        bias: whether there is a b (there always is a c).
        width: of the token embeddings; the model's, unless set. None: d_model.
    """

    guesses = True

    def __init__(
        self,
        d_model: int,
        vocab_size: int,
        pooled: bool,
        *,
        activation: ActivationOption = "gelu",
        norm: NormOption = "layernorm",
        bias: bool = True,
        width: int | None = None,
    ) -> None:
        super().__init__()
        width = width or d_model
        self.dense = nn.Linear(d_model, width, bias)
        self.activation = activations.build(activation)
        self.norm = norms.build(norm, width)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    @property
    def ends_in_table(self) -> bool:
        return True

    def score(self, states: HiddenStates, token_embeddings: EmbeddingMatrix) -> Scores:
        return Scores(self.norm(self.activation(self.dense(states))), token_embeddings, self.bias)
