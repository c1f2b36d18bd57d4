"""Head `next_sentence`: whether one text follows the other."""

from torch import nn

from zoo.models.heads.head import EmbeddingMatrix, Head, HiddenStates, heads
from zoo.models.heads.scores import Scores


@heads.register("next_sentence")
class NextSentenceHead(Head):
    """Scores of "is next" (label 0) and "is not next" (label 1), from the pooled summary.

    Source: Devlin et al. 2019, arXiv:1810.04805, section 3.1, task 2.
    """

    scores_documents = True

    def __init__(self, d_model: int, vocab_size: int, pooled: bool) -> None:
        super().__init__()
        self.output = nn.Linear(d_model, 2)

    def score(self, states: HiddenStates, token_embeddings: EmbeddingMatrix) -> Scores:
        return Scores.from_linear(self.output, states)
