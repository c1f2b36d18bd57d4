"""Slot `mixer`: how places of a sequence learn of each other. Supplied: d_model, causal, a maker of attention."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from zoo.blocks.attention import Attention, Reading
from zoo.blocks.documents import View
from zoo.registry import Slot


class Mixer(nn.Module, ABC):
    """Mixes the places of a row inside their documents.

    `forward` sees whole rows. `step` sees new places only and keeps what it needs of the earlier ones in a state, which
    it changes; a place of document 0 leaves the state as it was.
    """

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "batch length d_model"], view: View, record: list[Tensor | None] | None = None
    ) -> Float[Tensor, "batch length d_model"]:
        """Mix whole rows; a mixer that has weights appends them to `record`, others append None."""

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

    keys: Float[Tensor, "batch kv_heads memory d_key"] | None = None
    values: Float[Tensor, "batch kv_heads memory d_value"] | None = None


@mixers.register("attention")
class AttentionMixer(Mixer):
    """Self-attention: every place reads all that it may see.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.3.
    """

    def __init__(self, d_model: int, causal: bool, attention: Callable[[], Attention]) -> None:
        super().__init__()
        self.attention = attention()

    def forward(
        self, x: Float[Tensor, "batch length d_model"], view: View, record: list[Tensor | None] | None = None
    ) -> Float[Tensor, "batch length d_model"]:
        mixed: Tensor = self.attention(x, self.attention.read(x, view.positions, view.position), view, record)
        return mixed

    def start_state(self, batch: int) -> AttentionState:
        return AttentionState()

    def step(
        self, x: Float[Tensor, "batch new d_model"], view: View, state: AttentionState
    ) -> Float[Tensor, "batch new d_model"]:
        new = self.attention.read(x, view.positions, view.position)
        state.keys = new.keys if state.keys is None else torch.cat([state.keys, new.keys], dim=2)
        state.values = new.values if state.values is None else torch.cat([state.values, new.values], dim=2)
        mixed: Tensor = self.attention(x, Reading(state.keys, state.values), view)
        return mixed

    def reorder(self, state: AttentionState, rows: Int[Tensor, " chosen"]) -> None:
        if state.keys is not None and state.values is not None:
            state.keys, state.values = state.keys[rows], state.values[rows]
