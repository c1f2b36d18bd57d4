"""Head `similarity`: the class of a pair of texts, independent of their order."""

from torch import nn

from zoo.blocks.dropout import Dropout
from zoo.models.heads.head import EmbeddingMatrix, Head, HiddenStates, heads
from zoo.models.heads.scores import Scores
from zoo.registry import refuse_below


@heads.register("similarity")
class SimilarityHead(Head):
    """W (x + y), with the last hidden states x and y of the two orders of a pair of texts.

    The head itself scores each order alone, as W x. W has no bias, so the sum of both is W (x + y).
    Source: Radford et al. 2018 (GPT), section 3.3.

    Args:
        labels: number of classes; 1 for regression.
        dropout: probability of dropping an entry of the vector in training; the model's, unless set.
    """

    scores_documents = True

    def __init__(self, d_model: int, vocab_size: int, pooled: bool, *, labels: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        refuse_below(1, labels=labels)
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(d_model, labels, bias=False)

    def score(self, states: HiddenStates, token_embeddings: EmbeddingMatrix) -> Scores:
        return Scores.from_linear(self.output, self.dropout(states))
