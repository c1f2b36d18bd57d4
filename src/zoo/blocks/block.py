"""Slot `block`: how sublayers, norms and the residual stream connect.

The model supplies a factory of norms, mixer, cross (attention to a memory), feed_forward and dropout.
"""

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from zoo.blocks.attention import Attention
from zoo.blocks.dropout import Dropout
from zoo.blocks.mixer import Mixer
from zoo.blocks.rows.cache import KeysValues
from zoo.blocks.rows.view import View
from zoo.registry import Slot

Stream = Float[Tensor, "batch length d_model"]
Places = Int[Tensor, " places"]
Picked = Float[Tensor, "rows picked d_model"]  # the whole stream, or selected positions as one row
Sublayer = Callable[[Tensor], Tensor]


@dataclass
class SourceView:
    """A memory to attend to: its states, and the view that masks it."""

    states: Float[Tensor, "batch memory d_memory"]
    view: View

    def without_cache(self) -> "SourceView":
        """Return the same memory with empty caches in its view."""
        return SourceView(self.states, self.view.without_cache())


class BlockState(NamedTuple):
    """What a block keeps between decoding steps: its mixer's state and the memory's keys and values."""

    mixer: Any
    memory: KeysValues | None


class Block(nn.Module, ABC):
    """One layer: mixer, cross-attention if there is a memory, feed-forward.

    A variant implements `connect`, for one sublayer at a time, or overrides `combine`, for all of them together.

    Class attributes:
        final_norm: whether a stack of such blocks must end with a norm.
    """

    final_norm: ClassVar[bool] = False

    def __init__(
        self,
        norm: Callable[[], nn.Module],
        mixer: Mixer,
        cross: Attention | None,
        feed_forward: nn.Module,
        dropout: float,
    ) -> None:
        super().__init__()
        self.mixer, self.cross, self.feed_forward = mixer, cross, feed_forward
        self.dropout = Dropout(dropout)
        sublayers = ["mixer", "feed_forward"] if cross is None else ["mixer", "cross", "feed_forward"]
        self.norms = nn.ModuleDict(self.build_norms(norm, sublayers))

    def build_norms(self, norm: Callable[[], nn.Module], sublayers: list[str]) -> dict[str, nn.Module]:
        """Build one norm per sublayer."""
        return {name: norm() for name in sublayers}

    def skip_first_norm(self) -> None:
        """Remove the norm before the mixer, for stacks that have just normalized their input.

        Raises:
            ValueError: the block is not pre_norm.
        """
        raise ValueError("first_norm: false works only with block pre_norm")

    def connect(self, x: Stream, norm: nn.Module, sublayer: Sublayer) -> Stream:
        """Apply one sublayer and its norm to the residual stream."""
        raise NotImplementedError(f"{type(self).__name__} does not implement connect")

    def combine(self, x: Stream, sublayers: dict[str, Sublayer], places: Places | None = None) -> Picked:
        """Apply all sublayers in order; with `places`, the feed-forward runs on these positions only."""
        for name, sublayer in sublayers.items():
            if name == "feed_forward" and places is not None:
                x = gather_places(x, places)
            x = self.connect(x, self.norms[name], sublayer)
        return x

    def forward(self, x: Stream, view: View, source: SourceView | None = None, places: Places | None = None) -> Picked:
        """Apply the layer to whole rows.

        Args:
            places: flat indices (row * length + index) of the positions to return, as one row, in this order; None:
                return all. The others still serve as keys, but skip the feed-forward, most of a block's FLOPs.
        """
        sublayers: dict[str, Sublayer] = {"mixer": lambda h: self.dropout(self.mixer(h, view))}
        if self.cross is not None and source is not None:
            cross, memory = self.cross, self.cross.read(source.states)
            sublayers["cross"] = lambda h: self.dropout(cross(h, memory, source.view))
        sublayers["feed_forward"] = lambda h: self.dropout(self.feed_forward(h))
        return self.combine(x, sublayers, places)

    def prepare(self, view: View, source: SourceView | None, dtype: torch.dtype) -> None:
        """Compute what layers share, such as masks, before the first layer runs; `dtype` is that of matrix products.

        Otherwise the first layer would compute it, and the compiler would need a separate graph for that layer.
        """
        self.mixer.prepare(view, dtype)
        if self.cross is not None and source is not None:
            self.cross.prepare(source.view, dtype)

    def start_state(self, states: Float[Tensor, "batch memory d_memory"] | None) -> BlockState:
        """Build the state before the first token; the memory is projected to keys and values once, here."""
        if self.cross is None or states is None:
            return BlockState(None, None)
        return BlockState(None, self.cross.to_fast_layout(self.cross.read(states)))

    def step(self, x: Stream, view: View, source_view: View | None, state: BlockState) -> tuple[Stream, BlockState]:
        """Apply the layer to new tokens; return their outputs and the state after them.

        Consecutive rows may share one row of the memory (beams): their tokens become queries of that row.

        Args:
            source_view: view of these queries on the memory, with one row per row of the memory.
        """
        carried, memory = state

        def mix(h: Stream) -> Stream:
            nonlocal carried
            h, carried = self.mixer.step(h, view, carried)
            return h

        sublayers: dict[str, Sublayer] = {"mixer": mix}
        if self.cross is not None and memory is not None and source_view is not None:
            cross, known, seen = self.cross, memory, source_view
            sublayers["cross"] = lambda h: cross.step(group_by_memory(h, known), known, seen).view_as(h)
        sublayers["feed_forward"] = self.feed_forward
        return self.combine(x, sublayers), BlockState(carried, memory)


def gather_places(x: Stream, places: Places) -> Float[Tensor, "1 places d_model"]:
    """Gather the vectors at flat indices (row * length + index) as one row."""
    # not x[places]: on a GPU its gradient adds repeated indices one by one, and unused slots all repeat one index
    return x.flatten(0, 1).index_select(0, places)[None]


def group_by_memory(
    x: Float[Tensor, "rows new d_model"], memory: KeysValues
) -> Float[Tensor, "sources queries d_model"]:
    """Concatenate the tokens of the rows that share a row of the memory."""
    return x.reshape(len(memory.keys), -1, x.shape[-1])


blocks: Slot[Block] = Slot("block")


@blocks.register("post_norm")
class PostNorm(Block):
    """norm(x + f(x)): the stream itself is normalized after every sublayer.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.1; GPT-1 and BERT.
    """

    def connect(self, x: Stream, norm: nn.Module, sublayer: Sublayer) -> Stream:
        return norm(x + sublayer(x))


@blocks.register("pre_norm")
class PreNorm(Block):
    """x + f(norm(x)): the residual stream itself is never normalized.

    Source: Xiong et al. 2020, arXiv:2002.04745, figure 1b; GPT-2.
    """

    final_norm = True  # the stream grows with depth, so the stack must end with a norm

    def skip_first_norm(self) -> None:
        self.norms["mixer"] = nn.Identity()

    def connect(self, x: Stream, norm: nn.Module, sublayer: Sublayer) -> Stream:
        return x + sublayer(norm(x))


@blocks.register("sandwich")
class Sandwich(Block):
    """x + norm(f(norm(x))): normalized on the way in and on the way out.

    Source: Ding et al. 2021 (CogView), arXiv:2105.13290, section 2.4.
    """

    final_norm = True

    def build_norms(self, norm: Callable[[], nn.Module], sublayers: list[str]) -> dict[str, nn.Module]:
        return {name: nn.ModuleDict({"before": norm(), "after": norm()}) for name in sublayers}

    def connect(self, x: Stream, norm: nn.Module, sublayer: Sublayer) -> Stream:
        assert isinstance(norm, nn.ModuleDict)
        change: Tensor = norm["after"](sublayer(norm["before"](x)))
        return x + change


@blocks.register("parallel")
class Parallel(Block):
    """x + f(norm(x)) + g(norm(x)): all sublayers read the same normalized stream.

    Source: Wang & Komatsuzaki 2021 (GPT-J); Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, section 2.
    """

    final_norm = True

    def build_norms(self, norm: Callable[[], nn.Module], sublayers: list[str]) -> dict[str, nn.Module]:
        return {"mixer": norm()}

    def combine(self, x: Stream, sublayers: dict[str, Sublayer], places: Places | None = None) -> Picked:
        normalized = self.norms["mixer"](x)
        for name, sublayer in sublayers.items():
            if name == "feed_forward" and places is not None:
                x, normalized = gather_places(x, places), gather_places(normalized, places)
            x = x + sublayer(normalized)
        return x
