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
Numbers = Int[Tensor, "batch length"]  # of documents
CHANNELS = 3  # red, green, blue
Tokens = Int[Tensor, "batch length"]
Pictures = UInt8[Tensor, "batch channels height width"]


@runtime_checkable
class SomeUnread(Protocol):
    """Settings of a part that tell which of them nothing reads in a model."""

    def unread(self, reads_memory: bool) -> dict[str, str]:
        """Settings that nothing reads, each with the reason.

        Args:
            reads_memory: whether there is an encoder whose memory the part reads.
        """


@dataclass
class Memory:
    """What an encoder hands to a decoder.

    Args:
        states: one vector a place.
        documents: of the places.
        encoder: what made it, and knows how to sum a document up.
    """

    states: Float[Tensor, "batch memory d_memory"]
    documents: Documents
    encoder: "Encoder"

    def refuse_other_rows(self, tokens: Tensor) -> None:
        """Check that each row of tokens has a row of the memory.

        Raises:
            ValueError: one has none, or one of the memory is read by none.
        """
        rows, read = len(tokens), len(self.states)
        if rows != read:
            raise ValueError(f"source: expected a batch of {rows}, as of tokens, got {read}")

    def summaries(self) -> Float[Tensor, "documents d_memory"]:
        """One vector for each document, in the order of `documents.sequences()`."""
        return self.encoder.summarize(self.states, self.documents.numbers, self.documents.sequences().starts)


@dataclass
class PartInput:
    """What an encoder or a decoder reads: tokens, their documents (None: every row is one), and segments.

    A picture is one place of its row.

    Args:
        recorders: where weights are recorded, by the kinds that are asked for, as in Output.weights.
        places: flat places (row * length + place) whose states alone are wanted, as one row in this order, of a part
            that `picks`; None: all.
        table: the token vectors, where they were cast before; a part may look tokens up there.
    """

    tokens: Tokens | Pictures
    documents: Numbers | Documents | None = None
    segments: Int[Tensor, "batch length"] | None = None
    recorders: Mapping[str, Recorder] = field(default_factory=dict)
    places: Int[Tensor, " places"] | None = None
    table: TokenTable | None = None

    def rows(self) -> Documents:
        """The documents of every place."""
        return Documents.of(self.documents, self.tokens if self.tokens.dim() == 2 else self.tokens[:, :1, 0, 0])


class Part(nn.Module, ABC):
    """An encoder or a decoder.

    Class attributes:
        Settings: the frozen dataclass that its map in a model's file is read into.
        pooled: whether heads that score documents read its summary through the pooler.
        causal: whether a place sees only those before it.
        picks: whether it can leave out work on the states of places that nobody reads; a document's summary then is the
            state of one place.

    Attributes:
        max_length: the most places of one document.
        image_size: side of the pictures that it reads (pixels); None: it reads tokens.
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
        """Where its tokens become vectors; None for a part that reads no tokens."""
        return next((module for module in self.modules() if isinstance(module, Embeddings)), None)

    @abstractmethod
    def document_places(self, documents: Numbers) -> Int[Tensor, " documents"]:
        """The flat place (row * length + place) that stands for each document, in reading order."""

    def summarize(
        self, states: States, documents: Numbers, places: Int[Tensor, " places"]
    ) -> Float[Tensor, "places d_model"]:
        """One vector for each document that `places` stand for (-1: any vector)."""
        return states.flatten(0, 1)[self.summary_places(documents, places)]

    def summary_places(self, documents: Numbers, places: Int[Tensor, " places"]) -> Int[Tensor, " places"]:
        """The flat place whose state sums up each document that `places` stand for (-1: any place)."""
        return places.clamp_min(0)

    def layers_upward(self) -> list[nn.Module]:
        """Its layers, from the input to the output; none in a part that has no depth."""
        return []

    @property
    def recomputes(self) -> bool:
        """Whether layers are recomputed now: outside training nothing is kept for a backward pass."""
        return self.checkpointing and self.training

    def blank(self, length: int, device: torch.device | str) -> Tensor:
        """An input of one row: so many tokens, or a picture."""
        return torch.zeros(1, length, dtype=torch.long, device=device)

    @property
    def grids(self) -> Sequence[tuple[int, int]]:
        """Rows and columns of the places after each layer, in a part that reads pictures."""
        return ()

    def attentions(self) -> Iterator[tuple[Attention, Position | None]]:
        """Those that read whole rows, whose backend can be chosen, and where order enters each."""
        return ((module, None) for module in self.modules() if isinstance(module, Attention))


class Encoder(Part):
    """Makes a memory of its tokens."""

    pooled = True
    causal = False

    @abstractmethod
    def forward(self, given: PartInput) -> Memory:
        """Read whole rows."""

    def document_places(self, documents: Numbers) -> Int[Tensor, " documents"]:
        begins = (documents > 0) & (positions_of(documents) == 0)
        return begins.flatten().nonzero().squeeze(1)


class Decoder(Part):
    """Reads its tokens, and perhaps a memory, from left to right."""

    pooled = False
    causal = True

    @abstractmethod
    def forward(self, given: PartInput, memory: Memory | None = None) -> States:
        """Read whole rows."""

    @abstractmethod
    def start(self, batch: int, memory: Memory | None = None, room: int | None = None) -> Any:
        """A state before the first token.

        Args:
            room: the most places that a row will have, padding included, where no text of it is longer than the model
                can read; None: not known.
        """

    @abstractmethod
    def step(self, tokens: Tokens, documents: Numbers | None, state: Any) -> States:
        """Read new tokens (one document a row; document 0: padding on the left) and carry the state on."""

    @abstractmethod
    def settle(self, state: Any) -> None:
        """Give a state its steady form, so that a CUDA graph of a step can be replayed.

        From now on a step reads one place and leaves its state in the same tensors, which keep their shapes; so does
        `reorder` where the number of rows stays. No number that the host counts enters it. It reads all the room that
        there is, written or not.
        """

    @abstractmethod
    def reorder(self, state: Any, rows: Int[Tensor, " chosen"], sources: Int[Tensor, " kept"] | None = None) -> None:
        """Continue with these rows of the batch (beams), as many for each row of the memory, side by side.

        Args:
            sources: the rows of the memory that they read; None: all, as before.
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
    """Let both parts read one matrix of token vectors.

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
