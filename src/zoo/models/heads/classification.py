"""Head `classification`: the class of a document."""

from torch import nn

from zoo.blocks.dropout import Dropout
from zoo.models.heads.head import EmbeddingMatrix, Head, HiddenStates, heads
from zoo.models.heads.scores import Scores
from zoo.registry import refuse_below


@heads.register("classification")
class ClassificationHead(Head):
    """One score per class: from the pooled summary of an encoder, or a decoder's last position (then without bias).

    Source: Devlin et al. 2019, section 4.1; Radford et al. 2018 (GPT-1), equation 3.

    Args:
        labels: number of classes; 1 for regression.
        dropout: probability of dropping an entry of the vector in training; the model's, unless set.
    """

    scores_documents = True

    def __init__(self, d_model: int, vocab_size: int, pooled: bool, *, labels: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        refuse_below(1, labels=labels)
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(d_model, labels, bias=pooled)

    def score(self, states: HiddenStates, token_embeddings: EmbeddingMatrix) -> Scores:
        return Scores.from_linear(self.output, self.dropout(states))
