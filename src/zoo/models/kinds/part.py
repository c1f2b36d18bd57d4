"""Slots `encoder` and `decoder`: encoders make a memory, decoders read it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from zoo.blocks.attention import Attention
from zoo.blocks.position import Position
from zoo.blocks.rows.documents import Documents, positions_of
from zoo.blocks.rows.view import Recorder
from zoo.models.embeddings import Embeddings
from zoo.models.token_table import TokenTable
from zoo.registry import Slot

States = Float[Tensor, "batch length d_model"]
Numbers = Int[Tensor, "batch length"]  # the document of each position; 0: padding
CHANNELS = 3  # red, green, blue
Tokens = Int[Tensor, "batch length"]
Pictures = UInt8[Tensor, "batch channels height width"]


@runtime_checkable
class ReportsUnused(Protocol):
    """Settings of a part that can tell which of them have no effect in a model."""

    def unused_settings(self, reads_memory: bool) -> dict[str, str]:
        """Return the settings that nothing reads, each with the reason.

        Args:
            reads_memory: whether there is an encoder whose memory the part reads.
        """


@dataclass
class Memory:
    """The output of an encoder, which a decoder reads.

    Args:
        states: one vector per position.
        documents: of the positions.
        encoder: the encoder that made it, which can summarize a document.
    """

    states: Float[Tensor, "batch memory d_memory"]
    documents: Documents
    encoder: "Encoder"

    def refuse_other_rows(self, tokens: Tensor) -> None:
        """Check that the memory has one row per row of tokens.

        Raises:
            ValueError: it has more or fewer.
        """
        rows, read = len(tokens), len(self.states)
        if rows != read:
            raise ValueError(f"source: expected {rows} rows, one per row of tokens, got {read}")

    def summaries(self) -> Float[Tensor, "documents d_memory"]:
        """Return one vector per document, in the order of `documents.sequences()`."""
        return self.encoder.summarize(self.states, self.documents.numbers, self.documents.sequences().starts)


@dataclass
class PartInput:
    """What an encoder or a decoder reads: tokens, their documents (None: every row is one), and segments.

    An image is one position of its row.

    Args:
        recorders: record attention weights, by the requested kinds, as in `Output.weights`.
        places: flat positions (row * length + position); a part that `picks` returns only their states, in this order
            as one row. None: all.
        table: the token vectors, already cast, in which a part may look tokens up; None: it uses its own.
    """

    tokens: Tokens | Pictures
    documents: Numbers | Documents | None = None
    segments: Int[Tensor, "batch length"] | None = None
    recorders: Mapping[str, Recorder] = field(default_factory=dict)
    places: Int[Tensor, " places"] | None = None
    table: TokenTable | None = None

    def rows(self) -> Documents:
        """Return the documents of all positions."""
        return Documents.of(self.documents, self.tokens if self.tokens.dim() == 2 else self.tokens[:, :1, 0, 0])


class Part(nn.Module, ABC):
    """An encoder or a decoder.

    Class attributes:
        Settings: the frozen dataclass that its map in a model's file is read into.
        pooled: whether heads that score documents read its summary through the pooler.
        causal: whether a position sees no later one.
        picks: whether it can skip computing states that nobody reads (`PartInput.places`); the summary of a document
            must then be the state of one position.

    Attributes:
        max_length: the most positions of one document.
        image_size: side of the images that it reads (pixels); None: it reads tokens.
        checkpointing: recompute each layer in the backward pass instead of keeping its activations, in kinds that can.
    """

    Settings: ClassVar[type]
    pooled: ClassVar[bool]
    causal: ClassVar[bool]
    picks: ClassVar[bool] = False
    d_model: int
    n_layers: int
    max_length: int
    image_size: int | None = None
    checkpointing: bool = False

    @property
    def embeddings(self) -> Embeddings | None:
        """The module that embeds its tokens; None for a part that reads no tokens."""
        return next((module for module in self.modules() if isinstance(module, Embeddings)), None)

    @abstractmethod
    def document_places(self, documents: Numbers) -> Int[Tensor, " documents"]:
        """Return the flat position (row * length + position) that represents each document, in reading order."""

    def summarize(
        self, states: States, documents: Numbers, places: Int[Tensor, " places"]
    ) -> Float[Tensor, "places d_model"]:
        """Return the summary of the document that each flat position of `places` represents (-1: any vector)."""
        return states.flatten(0, 1)[self.summary_places(documents, places)]

    def summary_places(self, documents: Numbers, places: Int[Tensor, " places"]) -> Int[Tensor, " places"]:
        """Return the flat position whose state is that document's summary (-1: any position)."""
        return places.clamp_min(0)

    def layers_upward(self) -> list[nn.Module]:
        """Return its layers, from the input to the output; none in a part that has no depth."""
        return []

    @property
    def recomputes(self) -> bool:
        """Whether layers are recomputed now; outside training there is no backward pass to do it in."""
        return self.checkpointing and self.training

    def blank(self, length: int, device: torch.device | str) -> Tensor:
        """Return an input of one row: `length` tokens, or one image whatever the length."""
        return torch.zeros(1, length, dtype=torch.long, device=device)

    @property
    def grids(self) -> Sequence[tuple[int, int]]:
        """Rows and columns of the grid after each layer, in a part that reads images."""
        return ()

    def attentions(self) -> Iterator[tuple[Attention, Position | None]]:
        """Yield each attention that reads whole rows, whose backend can be chosen, with its position module."""
        return ((module, None) for module in self.modules() if isinstance(module, Attention))


class Encoder(Part):
    """Reads tokens or images and returns them as a memory."""

    pooled = True
    causal = False

    @abstractmethod
    def forward(self, given: PartInput) -> Memory:
        """Return the memory of whole rows."""

    def document_places(self, documents: Numbers) -> Int[Tensor, " documents"]:
        begins = (documents > 0) & (positions_of(documents) == 0)
        return begins.flatten().nonzero().squeeze(1)


class Decoder(Part):
    """Reads its tokens, and perhaps a memory, from left to right."""

    pooled = False
    causal = True

    @abstractmethod
    def forward(self, given: PartInput, memory: Memory | None = None) -> States:
        """Return the states of whole rows."""

    @abstractmethod
    def start(self, batch: int, memory: Memory | None = None, room: int | None = None) -> Any:
        """Return the decoding state before the first token.

        Args:
            room: the most positions that a row will have, padding included, if no document will exceed `max_length`;
                None: not known.
        """

    @abstractmethod
    def step(self, tokens: Tokens, documents: Numbers | None, state: Any) -> States:
        """Read new tokens (one document per row; document 0: left padding), update the state, return their states."""

    @abstractmethod
    def settle(self, state: Any) -> None:
        """Fix the tensors of a state, so that a CUDA graph of a step can be replayed.

        From now on a step reads one position per row and writes its state into the same tensors, whose shapes stay; so
        does `reorder` while the number of rows stays. A step uses no number that the host counts: it reads all
        positions that `room` allows, written or not.
        """

    @abstractmethod
    def reorder(self, state: Any, rows: Int[Tensor, " chosen"], sources: Int[Tensor, " kept"] | None = None) -> None:
        """Continue with these rows of the batch (beams): equally many, and adjacent, for each row of the memory.

        Args:
            sources: rows of the memory to keep; None: all.
        """

    def document_places(self, documents: Numbers) -> Int[Tensor, " documents"]:
        ends = (documents > 0) & (positions_of(documents.flip(1)).flip(1) == 0)
        return ends.flatten().nonzero().squeeze(1)


@dataclass(frozen=True)
class PartChoice:
    """A part of a model as its file describes it: a kind and that kind's settings."""

    kind: str
    settings: Any


encoders: Slot[Encoder] = Slot("encoder")
decoders: Slot[Decoder] = Slot("decoder")
PARTS: dict[str, Slot[Any]] = {"encoder": encoders, "decoder": decoders}


def share_tokens(encoder: Encoder | None, decoder: Decoder | None) -> None:
    """Make both parts share one matrix of token vectors.

    Raises:
        ValueError: the two matrices would not have the same size.
    """
    if encoder is None or decoder is None or encoder.embeddings is None or decoder.embeddings is None:
        return
    ours, theirs = encoder.embeddings.tokens.weight.shape, decoder.embeddings.tokens.weight.shape
    if ours != theirs:
        raise ValueError(
            f"embeddings.shared: the encoder's token embeddings are {tuple(ours)}, the decoder's {tuple(theirs)}; "
            "set embeddings.shared to false or give both the same vocab_size and d_model"
        )
    decoder.embeddings.tokens = encoder.embeddings.tokens
