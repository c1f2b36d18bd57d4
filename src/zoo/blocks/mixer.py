"""Slot `mixer`: how places of a sequence learn of each other. Supplied: d_model, causal, a maker of attention."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from zoo.blocks.attention import Attention, KeysValues
from zoo.blocks.convolution import Neighbours
from zoo.blocks.recurrence import CellOption, cells, hold
from zoo.blocks.residual import IntoStream
from zoo.blocks.view import View
from zoo.registry import Slot


class Mixer(nn.Module, ABC):
    """Mixes the places of a row inside their documents.

    `forward` sees whole rows. `step` sees new places only and keeps what it needs of the earlier ones in a state, which
    it changes; a place of document 0 leaves the state as it was.

    Class attributes:
        attends: whether it reads a position that acts on queries, keys or scores.
    """

    attends: ClassVar[bool] = False

    @abstractmethod
    def forward(self, x: Float[Tensor, "batch length d_model"], view: View) -> Float[Tensor, "batch length d_model"]:
        """Mix whole rows."""

    @abstractmethod
    def start_state(self, batch: int) -> Any:
        """What is known before the first place."""

    @abstractmethod
    def step(self, x: Float[Tensor, "batch new d_model"], view: View, state: Any) -> Float[Tensor, "batch new d_model"]:
        """Mix new places with those in the state; `view` has the new places as queries, all places so far as keys."""

    @abstractmethod
    def reorder(self, state: Any, rows: Int[Tensor, " chosen"]) -> None:
        """Continue with these rows of the batch (beams)."""


mixers: Slot[Mixer] = Slot("mixer")


@dataclass
class AttentionState:
    """Keys and values of all places so far."""

    memory: KeysValues | None = None


@mixers.register("attention")
class AttentionMixer(Mixer):
    """Self-attention: every place reads all that it may see.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.3.
    """

    attends = True

    def __init__(self, d_model: int, causal: bool, attention: Callable[[], Attention]) -> None:
        super().__init__()
        self.attention = attention()

    def forward(self, x: Float[Tensor, "batch length d_model"], view: View) -> Float[Tensor, "batch length d_model"]:
        mixed: Tensor = self.attention(x, self.attention.read(x, view), view)
        return mixed

    def start_state(self, batch: int) -> AttentionState:
        return AttentionState()

    def step(
        self, x: Float[Tensor, "batch new d_model"], view: View, state: AttentionState
    ) -> Float[Tensor, "batch new d_model"]:
        new = self.attention.read(x, view)
        state.memory = new if state.memory is None else state.memory.then(new)
        mixed: Tensor = self.attention.step(x, state.memory, view)
        return mixed

    def reorder(self, state: AttentionState, rows: Int[Tensor, " chosen"]) -> None:
        state.memory = None if state.memory is None else state.memory.take(rows)


@dataclass
class RecurrentMixerState:
    """The cell's state."""

    vectors: Float[Tensor, "vectors batch d_state"] | None = None


@mixers.register("recurrent")
class RecurrentMixer(Mixer):
    """A state is carried from place to place; every place reads the state that has taken it in.

    Source: Elman 1990; Schuster & Paliwal 1997 (both directions).

    Args:
        cell: how the state takes in a vector.
        d_state: width of the state of each direction; None: d_model.
        bidirectional: also from right to left, where the model is not causal.
    """

    def __init__(
        self,
        d_model: int,
        causal: bool,
        attention: Callable[[], Attention],
        *,
        cell: CellOption = "gru",
        d_state: int | None = None,
        bidirectional: bool = True,
    ) -> None:
        super().__init__()
        if d_state is not None and d_state < 1:
            raise ValueError(f"mixer 'recurrent': d_state ({d_state}) must be at least 1")
        both, d_state = bidirectional and not causal, d_state or d_model
        self.cell = cells.build(cell, d_model, d_state, both)
        self.output = IntoStream(2 * d_state if both else d_state, d_model)

    def forward(self, x: Float[Tensor, "batch length d_model"], view: View) -> Float[Tensor, "batch length d_model"]:
        mixed: Tensor = self.output(self.cell(x, view.documents))
        return mixed

    def start_state(self, batch: int) -> RecurrentMixerState:
        return RecurrentMixerState()

    def step(
        self, x: Float[Tensor, "batch new d_model"], view: View, state: RecurrentMixerState
    ) -> Float[Tensor, "batch new d_model"]:
        vectors = self.cell.start(x) if state.vectors is None else state.vectors
        seen = []
        for at in range(x.shape[1]):
            vectors = hold(vectors, self.cell.step(x[:, at], vectors), view.documents.numbers[:, at] > 0)
            seen.append(vectors[0])
        state.vectors = vectors
        mixed: Tensor = self.output(torch.stack(seen, dim=1))
        return mixed

    def reorder(self, state: RecurrentMixerState, rows: Int[Tensor, " chosen"]) -> None:
        if state.vectors is not None:
            state.vectors = state.vectors[:, rows]


@dataclass
class ConvolutionState:
    """The last places that a convolution still reads, with their documents."""

    x: Float[Tensor, "batch past d_model"] | None = None
    documents: Int[Tensor, "batch past"] | None = None


@mixers.register("convolution")
class ConvolutionMixer(Mixer):
    """Every place reads its neighbours at fixed distances, with one map for each distance.

    Source: Gehring et al. 2017, arXiv:1705.03122; van den Oord et al. 2016, arXiv:1609.03499 (causal, dilation); Kaiser
    et al. 2018, arXiv:1706.03059 (depthwise).

    Args:
        kernel: how many places are read: the place itself and those before it; around it where the model is not causal.
        dilation: distance between them (places).
        depthwise: one number for each distance and feature, then one map for all distances.
    """

    def __init__(
        self,
        d_model: int,
        causal: bool,
        attention: Callable[[], Attention],
        *,
        kernel: int = 5,
        dilation: int = 1,
        depthwise: bool = False,
    ) -> None:
        super().__init__()
        self.neighbours = Neighbours(kernel, dilation, causal)
        self.filters = nn.Conv1d(d_model, d_model, kernel, groups=d_model, bias=False) if depthwise else None
        self.output = IntoStream(d_model if depthwise else kernel * d_model, d_model)

    def convolve(
        self, x: Float[Tensor, "batch length d_model"], documents: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length d_model"]:
        read = self.neighbours(x, documents)
        if self.filters is None:
            mixed: Tensor = self.output(read.flatten(2))
        else:
            mixed = self.output((read * self.filters.weight[:, 0].T.to(x.dtype)).sum(2))
        return mixed

    def forward(self, x: Float[Tensor, "batch length d_model"], view: View) -> Float[Tensor, "batch length d_model"]:
        return self.convolve(x, view.documents.numbers)

    def start_state(self, batch: int) -> ConvolutionState:
        return ConvolutionState()

    def step(
        self, x: Float[Tensor, "batch new d_model"], view: View, state: ConvolutionState
    ) -> Float[Tensor, "batch new d_model"]:
        new, documents = x.shape[1], view.documents.numbers
        if state.x is not None and state.documents is not None:
            x, documents = torch.cat([state.x, x], dim=1), torch.cat([state.documents, documents], dim=1)
        # places of document 0 move to the front, so that those of the text stand side by side
        order = (documents > 0).int().argsort(dim=1, stable=True)
        x, documents = x.gather(1, order[..., None].expand_as(x)), documents.gather(1, order)
        mixed = self.convolve(x, documents)
        kept = max(documents.shape[1] - self.neighbours.reach, 0)
        state.x, state.documents = x[:, kept:], documents[:, kept:]
        return mixed.gather(1, order.argsort(dim=1)[..., None].expand_as(mixed))[:, -new:]

    def reorder(self, state: ConvolutionState, rows: Int[Tensor, " chosen"]) -> None:
        if state.x is not None and state.documents is not None:
            state.x, state.documents = state.x[rows], state.documents[rows]
