"""Head `choice`: how well one of several texts continues a context."""

from torch import nn

from zoo.blocks.dropout import Dropout
from zoo.models.heads.head import EmbeddingMatrix, Head, HiddenStates, heads
from zoo.models.heads.scores import Scores


@heads.register("choice")
class ChoiceHead(Head):
    """One score, x w + b, from the pooled summary of an encoder, or a decoder's last position.

    Source: Radford et al. 2018 (GPT), figure 1, "Multiple Choice"; Devlin et al. 2019, arXiv:1810.04805, section 4.4.

    Args:
        dropout: probability of dropping an entry of the vector in training; the model's, unless set.
    """

    scores_documents = True

    def __init__(self, d_model: int, vocab_size: int, pooled: bool, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(d_model, 1)

    def score(self, states: HiddenStates, token_embeddings: EmbeddingMatrix) -> Scores:
        return Scores.from_linear(self.output, self.dropout(states))
