"""Head `replaced_token`: whether a token is a generator's guess."""

from torch import nn

from zoo.blocks.activation import ActivationOption, activations
from zoo.models.heads.head import EmbeddingMatrix, Head, HiddenStates, heads
from zoo.models.heads.scores import Scores


@heads.register("replaced_token")
class ReplacedTokenHead(Head):
    """One score per position, w f(x W + b) + c: above 0, the token looks replaced.

    Beside a head that predicts masked tokens, the model has a generator: a smaller encoder of the same kind, whose
    states that head reads. It shares the token, segment and position embeddings.

    Source: Clark et al. 2020 (ELECTRA), arXiv:2003.10555, section 2; the authors' code. The generator's size: section
    3.2.

    Args:
        activation: f, a registered activation.
        generator_width: attention heads, d_model and d_ff of the generator, as a share of the encoder's.
        generator_depth: layers of the generator, as a share of the encoder's.
    """

    detects = True

    def __init__(
        self,
        d_model: int,
        vocab_size: int,
        pooled: bool,
        *,
        activation: ActivationOption = "gelu",
        generator_width: float = 0.25,
        generator_depth: float = 1.0,
    ) -> None:
        super().__init__()
        for name, share in (("generator_width", generator_width), ("generator_depth", generator_depth)):
            if not 0 < share <= 1:
                raise ValueError(f"heads.replaced_token.{name}: must be above 0 and at most 1, got {share}")
        self.dense = nn.Linear(d_model, d_model)
        self.activation = activations.build(activation)
        self.output = nn.Linear(d_model, 1)

    def score(self, states: HiddenStates, token_embeddings: EmbeddingMatrix) -> Scores:
        return Scores.from_linear(self.output, self.activation(self.dense(states)))
