"""From token ids to vectors."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from jaxtyping import Float, Int
from torch import Tensor, nn

from zoo.blocks.dropout import Dropout
from zoo.blocks.norm import norms
from zoo.blocks.position import Position
from zoo.models.token_table import TokenTable
from zoo.registry import Choice, refuse_below

ByPlace = Int[Tensor, "batch length"]


@dataclass(frozen=True)
class EmbeddingSettings:
    """How tokens become vectors.

    Args:
        width: of token, segment and position vectors; a linear layer brings their sum to d_model (ALBERT, ELECTRA).
            None: d_model, and no such layer.
        scale: multiply token vectors by the square root of their width (Vaswani et al. 2017, section 3.4).
        norm: normalize the sum of token, segment and position vectors (BERT).
        segments: number of segment kinds; 0: none, 1: one vector for all tokens, 2: first and second sentence (BERT).
        shared: encoder and decoder share one matrix.
        vectors: a word2vec, GloVe or fastText text file that token vectors are initialized from.
        frozen: do not train the token vectors.
    """

    width: int | None = None
    scale: bool = False
    norm: Annotated[Choice[nn.Module], norms] | None = None
    segments: int = 0
    shared: bool = True
    vectors: str | None = None
    frozen: bool = False

    def __post_init__(self) -> None:
        refuse_below(0, segments=self.segments)
        refuse_below(1, width=self.width)


class Embeddings(nn.Module):
    """The sum of token, segment and position vectors; then norm, dropout and, if widths differ, a map to d_model.

    Source: Devlin et al. 2019, arXiv:1810.04805, figure 2; scale from Vaswani et al. 2017, section 3.4; the map to
    d_model from Lan et al. 2020 (ALBERT), arXiv:1909.11942, section 3.1.
    """

    def __init__(self, vocab_size: int, d_model: int, dropout: float, settings: EmbeddingSettings) -> None:
        super().__init__()
        width = settings.width or d_model
        self.tokens = nn.Embedding(vocab_size, width)
        self.tokens.weight.requires_grad_(not settings.frozen)
        self.segments = nn.Embedding(settings.segments, width) if settings.segments else None
        self.norm = None if settings.norm is None else settings.norm.build(width)
        self.dropout = Dropout(dropout)
        self.factor = width**0.5 if settings.scale else 1.0
        self.project = nn.Linear(width, d_model) if width != d_model else None

    def forward(
        self,
        tokens: ByPlace,
        segments: ByPlace | None,
        at: ByPlace,
        positions: Iterable[Position],
        reach: int,
        table: TokenTable | None = None,
    ) -> Float[Tensor, "batch length d_model"]:
        """Embed tokens.

        Args:
            at: the position of each token in its document; all are below `reach`.
            positions: the position modules that act on the input.
            table: looks the tokens up instead, if it holds the same matrix.
        """
        x = self.tokens(tokens) if table is None or not table.holds(self.tokens) else table.look_up(tokens)
        if self.factor != 1.0:
            x = x * self.factor
        if self.segments is not None:
            # as in BERT, everything is the first sentence by default
            x = x + self.segments(tokens.new_zeros(1, 1) if segments is None else segments)
        for position in positions:
            x = position.embed(x, at, reach)
        x = self.dropout(x if self.norm is None else self.norm(x))
        return x if self.project is None else self.project(x)
