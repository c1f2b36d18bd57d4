"""Kind `recurrent` of encoder: a state that is carried along each document, in one direction or in both."""

from dataclasses import dataclass
from typing import Annotated

from jaxtyping import Float, Int
from torch import Tensor, cat, nn

from zoo.blocks.dropout import Dropout
from zoo.blocks.recurrence import Cell, cells
from zoo.blocks.rows.documents import positions_of
from zoo.models.embeddings import Embeddings, EmbeddingSettings
from zoo.models.kinds.part import Encoder, Memory, Numbers, PartInput, States, encoders
from zoo.registry import Choice, refuse_below


@dataclass(frozen=True)
class RecurrentSettings:
    """Settings of recurrent layers.

    Args:
        d_model, vocab_size, max_length, dropout: inherited from the model where a part does not set them.
        n_layers: number of stacked layers.
        cell: updates the state with the next vector.
    """

    d_model: int
    vocab_size: int
    max_length: int
    n_layers: int = 1
    dropout: float = 0.1
    cell: Annotated[Choice[Cell], cells] = cells.parse("gru")

    def __post_init__(self) -> None:
        sizes = ("n_layers", "d_model", "vocab_size", "max_length")
        refuse_below(1, **{name: getattr(self, name) for name in sizes})


@dataclass(frozen=True)
class RecurrentEncoderSettings(RecurrentSettings):
    """Settings of the encoder.

    Args:
        bidirectional: read each document in both directions; a position's state concatenates both, each d_model / 2
            wide.
    """

    bidirectional: bool = True


@encoders.register("recurrent")
class RecurrentEncoder(Encoder):
    """h_t = f(x_t, h_{t-1}) along each document; the last state is its summary.

    Source: Sutskever et al. 2014, arXiv:1409.3215; Cho et al. 2014, arXiv:1406.1078; both directions: Bahdanau et al.
    2015, arXiv:1409.0473, section 3.2. The summary of both directions is the last state of each.
    """

    Settings = RecurrentEncoderSettings

    def __init__(self, settings: RecurrentEncoderSettings, embeddings: EmbeddingSettings) -> None:
        super().__init__()
        self.d_model, self.n_layers, self.max_length = settings.d_model, settings.n_layers, settings.max_length
        self.bidirectional = settings.bidirectional
        if self.bidirectional and self.d_model % 2:
            raise ValueError(f"d_model ({self.d_model}) must be even for bidirectional: true, half for each direction")
        d_state = self.d_model // 2 if self.bidirectional else self.d_model
        self.embed = Embeddings(settings.vocab_size, self.d_model, settings.dropout, embeddings)
        self.layers = nn.ModuleList(
            settings.cell.build(self.d_model, d_state, self.bidirectional) for _ in range(settings.n_layers)
        )
        self.dropout = Dropout(settings.dropout)

    def layers_upward(self) -> list[nn.Module]:
        return list(self.layers)

    def forward(self, given: PartInput) -> Memory:
        documents = given.rows()
        x = self.embed(given.tokens, given.segments, documents.positions, [], given.tokens.shape[1])
        for layer in self.layers:
            x = self.dropout(layer(x, documents))
        if "encoder.self" in given.recorders:
            given.recorders["encoder.self"].layers = [None] * self.n_layers
        return Memory(x, documents, self)

    def summarize(
        self, states: States, documents: Numbers, places: Int[Tensor, " places"]
    ) -> Float[Tensor, "places d_model"]:
        """Return the document's last state: for the backward direction, the one at its first position."""
        known, flat = places.clamp_min(0), states.flatten(0, 1)
        last = flat[known + positions_of(documents.flip(1)).flip(1).flatten()[known]]
        if not self.bidirectional:
            return last
        first = flat[known - positions_of(documents).flatten()[known]]
        return cat([last[:, : self.d_model // 2], first[:, self.d_model // 2 :]], dim=1)
