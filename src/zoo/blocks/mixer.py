"""Slot `mixer`: how places of a sequence learn of each other. Supplied: d_model, causal, a maker of attention."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from zoo.blocks.attention import Attention
from zoo.blocks.convolution import neighbours, taps
from zoo.blocks.recurrence import CellOption, cells, hold
from zoo.blocks.residual import IntoStream
from zoo.blocks.rows.cache import Cache
from zoo.blocks.rows.view import View
from zoo.registry import Slot, refuse_below

New = Float[Tensor, "batch new d_model"]


class Mixer(nn.Module, ABC):
    """Mixes the places of a row inside their documents.

    `forward` sees whole rows. `step` sees new places only and keeps what it needs of the earlier ones in a state:
    tensors whose first axis is the batch, or caches, in tuples, so that `take_rows` can reorder any. A place of
    document 0 leaves the state as it was. A state is continued once: the step may write into it.

    Class attributes:
        attends: whether it reads a position that acts on queries, keys or scores.
    """

    attends: ClassVar[bool] = False

    @abstractmethod
    def forward(self, x: Float[Tensor, "batch length d_model"], view: View) -> Float[Tensor, "batch length d_model"]:
        """Mix whole rows."""

    def prepare(self, view: View, dtype: torch.dtype) -> None:
        """Compute what it shares with other layers, which find it in the view of whole rows.

        Args:
            dtype: of its products.
        """

    @abstractmethod
    def step(self, x: New, view: View, state: Any) -> tuple[New, Any]:
        """Mix new places with those in the state, and the state after them.

        Args:
            view: has the new places as queries, all places so far as keys.
            state: of the step before; None: these are the first places.
        """


mixers: Slot[Mixer] = Slot("mixer")


def take_rows(state: Any, rows: Int[Tensor, " chosen"]) -> Any:
    """These rows of every tensor and cache in a state, whatever it consists of: beams continue with them."""

    def take(x: Tensor | Cache) -> Tensor | Cache:
        return x.take(rows) if isinstance(x, Cache) else x.index_select(0, rows)

    # private by its name, but what torch.export is built on and transformers imports, too
    return tree_map_only((Tensor, Cache), take, state)


def settle(state: Any) -> None:
    """Let every cache in a state be read as a whole."""
    tree_map_only(Cache, Cache.settle, state)


def tensors_of(state: Any) -> list[Tensor]:
    """Every tensor of a state."""
    leaves = (leaf.tensors if isinstance(leaf, Cache) else (leaf,) for leaf in tree_leaves(state))
    return [x for some in leaves for x in some if isinstance(x, Tensor)]


@torch.no_grad()
def written(new: Any, state: Any) -> Any:
    """A new state in the tensors of the old one, whose shapes are the same."""
    for x, place in zip(tensors_of(new), tensors_of(state), strict=True):
        place.copy_(x)
    return state


@mixers.register("attention")
class AttentionMixer(Mixer):
    """Self-attention: every position attends to all that it may see.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.3.
    """

    attends = True

    def __init__(self, d_model: int, causal: bool, attention: Callable[[], Attention]) -> None:
        super().__init__()
        self.attention = attention()

    def forward(self, x: Float[Tensor, "batch length d_model"], view: View) -> Float[Tensor, "batch length d_model"]:
        return self.attention.read_itself(x, view)

    def prepare(self, view: View, dtype: torch.dtype) -> None:
        self.attention.prepare(view, dtype)

    def step(self, x: New, view: View, state: Cache | None) -> tuple[New, Cache]:
        new, window = self.attention.read(x, view), self.attention.window
        room = view.room if window is None else min(view.room, window)
        cache = self.attention.cache(new, room) if state is None else state.grown(room)
        seen, added = view.visibility, x.shape[1]
        # on a GPU these are three kernels, which layers share
        slots = seen.once(("slots", added, cache.room), lambda: cache.slots(seen.start, added))
        if added == 1:
            cache.write(new, slots, seen.n_keys)
            return self.attention.step(x, cache.read(), view.recent(cache.room)), cache
        # several places at once: the first of them still see what the last ones take the slots of
        memory = cache.followed_by(new, seen.start)
        cache.write(new, slots, seen.n_keys)
        return self.attention.step(x, memory, view.last(memory.keys.shape[2])), cache


@mixers.register("recurrent")
class RecurrentMixer(Mixer):
    """A recurrent state runs along the positions; the output at each position is the state after it.

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
        refuse_below(1, d_state=d_state)
        both, d_state = bidirectional and not causal, d_state or d_model
        self.cell = cells.build(cell, d_model, d_state, both)
        self.output = IntoStream(2 * d_state if both else d_state, d_model)

    def forward(self, x: Float[Tensor, "batch length d_model"], view: View) -> Float[Tensor, "batch length d_model"]:
        return self.output(self.cell(x, view.documents))

    def prepare(self, view: View, dtype: torch.dtype) -> None:
        if not view.documents.whole:
            view.documents.sequences()

    def step(
        self, x: New, view: View, state: Float[Tensor, "batch vectors d_state"] | None
    ) -> tuple[New, Float[Tensor, "batch vectors d_state"]]:
        vectors = self.cell.start(x) if state is None else state.transpose(0, 1)
        seen = []
        for at in range(x.shape[1]):
            vectors = hold(vectors, self.cell.step(x[:, at], vectors), view.documents.numbers[:, at] > 0)
            seen.append(vectors[0])
        return self.output(torch.stack(seen, dim=1)), vectors.transpose(0, 1)


@mixers.register("convolution")
class ConvolutionMixer(Mixer):
    """Every position reads its neighbours at fixed distances, with one linear map per distance.

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
        self.taps = taps(kernel, dilation, causal)
        self.filters = nn.Conv1d(d_model, d_model, kernel, groups=d_model, bias=False) if depthwise else None
        self.output = IntoStream(d_model if depthwise else kernel * d_model, d_model)

    def convolve(
        self, x: Float[Tensor, "batch length d_model"], documents: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length d_model"]:
        read = neighbours(x, documents, self.taps)
        if self.filters is None:
            return self.output(read.flatten(2))
        # nn.Conv1d only holds the filters, and begins as convolutions do: its own kernel knows no documents
        return self.output((read * self.filters.weight[:, 0].T.to(x.dtype)).sum(2))

    def forward(self, x: Float[Tensor, "batch length d_model"], view: View) -> Float[Tensor, "batch length d_model"]:
        return self.convolve(x, view.documents.numbers)

    def step(self, x: New, view: View, state: tuple[Tensor, Tensor] | None) -> tuple[New, tuple[Tensor, Tensor]]:
        """The state: the last places that a convolution still reads, and their documents."""
        new, documents, reach = x.shape[1], view.documents.numbers, -self.taps[0]
        if state is None:
            state = x.new_zeros(len(x), reach, x.shape[2]), documents.new_zeros(len(x), reach)
        x, documents = torch.cat([state[0], x], dim=1), torch.cat([state[1], documents], dim=1)
        # places of document 0 move to the front, so that those of the text stand side by side
        order = (documents > 0).int().argsort(dim=1, stable=True)
        x, documents = x.gather(1, order[..., None].expand_as(x)), documents.gather(1, order)
        mixed = self.convolve(x, documents)
        mixed = mixed.gather(1, order.argsort(dim=1)[..., None].expand_as(mixed))[:, -new:]
        return mixed, (x[:, new:], documents[:, new:])
