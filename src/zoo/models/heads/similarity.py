"""Head `similarity`: what two texts have to do with each other, whichever comes first."""

from torch import nn

from zoo.blocks.dropout import Dropout
from zoo.models.heads.head import Head, Scored, Table, heads
from zoo.models.heads.scores import Scores
from zoo.registry import refuse_below


@heads.register("similarity")
class SimilarityHead(Head):
    """W (x + y), with the last states x and y of both orders of two texts.

    It scores each order for itself, as W x; the sum of both is W (x + y), since W has no bias.
    Source: Radford et al. 2018 (GPT), section 3.3.

    Args:
        labels: number of classes; 1 where it gives a number.
        dropout: share of the vector dropped in training; the model's, where it is not set.
    """

    scores_documents = True

    def __init__(self, d_model: int, vocab_size: int, pooled: bool, *, labels: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        refuse_below(1, labels=labels)
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(d_model, labels, bias=False)

    def score(self, states: Scored, table: Table) -> Scores:
        return Scores.by(self.output, self.dropout(states))
