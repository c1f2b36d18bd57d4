"""Head `classification`: the class of a document."""

from jaxtyping import Float
from torch import Tensor, nn

from zoo.blocks.dropout import Dropout
from zoo.models.heads.head import Head, heads


@heads.register("classification")
class ClassificationHead(Head):
    """One score for each class: from the pooled summary of an encoder, or a decoder's last place (then without bias).

    Source: Devlin et al. 2019, section 4.1; Radford et al. 2018 (GPT-1), equation 3.

    Args:
        labels: number of classes.
        dropout: share of the vector dropped in training; the model's, where it is not set.
    """

    scores_documents = True

    def __init__(self, d_model: int, vocab_size: int, pooled: bool, *, labels: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        if labels < 2:
            raise ValueError(f"classification needs at least 2 labels, got {labels}")
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(d_model, labels, bias=pooled)

    def forward(
        self, states: Float[Tensor, "*places d_model"], table: Float[Tensor, "vocab_size width"]
    ) -> Float[Tensor, "*places n"]:
        logits: Tensor = self.output(self.dropout(states))
        return logits
