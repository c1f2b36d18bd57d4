"""Head `tagging`: the tag of a word, at its first token."""

from torch import nn

from zoo.blocks.dropout import Dropout
from zoo.models.heads.head import EmbeddingMatrix, Head, HiddenStates, heads
from zoo.models.heads.scores import Scores
from zoo.registry import refuse_below


@heads.register("tagging")
class TaggingHead(Head):
    """One score per tag, x W + b, from a position's hidden state; with `pooler.places`, from its pooled state.

    Source: Devlin et al. 2019, arXiv:1810.04805, section 5.3 and figure 4d; the pooler: Warner et al. 2024
    (ModernBERT), arXiv:2412.13663; the authors' code.

    Args:
        labels: number of tags.
        dropout: probability of dropping an entry of the vector in training; the model's, unless set.
    """

    pools_positions = True

    def __init__(self, d_model: int, vocab_size: int, pooled: bool, *, labels: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        refuse_below(2, labels=labels)
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(d_model, labels)

    def score(self, states: HiddenStates, token_embeddings: EmbeddingMatrix) -> Scores:
        return Scores.from_linear(self.output, self.dropout(states))
