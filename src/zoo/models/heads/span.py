"""Head `span`: where an answer begins and ends."""

from torch import nn

from zoo.models.heads.head import EmbeddingMatrix, Head, HiddenStates, heads
from zoo.models.heads.scores import Scores


@heads.register("span")
class SpanHead(Head):
    """Two scores per position, x W + b: that the answer begins there, and that it ends there.

    With `pooler.places`, x is the pooled state of the position.
    Source: Devlin et al. 2019, arXiv:1810.04805, section 4.2; the pooler: Warner et al. 2024 (ModernBERT),
    arXiv:2412.13663; the authors' code.
    """

    softmax_over_positions = True
    pools_positions = True

    def __init__(self, d_model: int, vocab_size: int, pooled: bool) -> None:
        super().__init__()
        self.output = nn.Linear(d_model, 2)

    def score(self, states: HiddenStates, token_embeddings: EmbeddingMatrix) -> Scores:
        return Scores.from_linear(self.output, states)
