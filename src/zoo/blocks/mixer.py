"""Slot `mixer`: how positions exchange information. The model supplies d_model, causal and a factory of attention."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from zoo.blocks.attention import Attention
from zoo.blocks.convolution import neighbors, tap_offsets
from zoo.blocks.recurrence import CellOption, cells, keep_at_padding
from zoo.blocks.residual import IntoStream
from zoo.blocks.rows.cache import Cache
from zoo.blocks.rows.view import View
from zoo.registry import Slot, refuse_below

New = Float[Tensor, "batch new d_model"]


class Mixer(nn.Module, ABC):
    """Mixes the positions of a row, within their documents.

    `forward` takes whole rows. `step` takes new tokens only and keeps what it needs of earlier ones in a state: nested
    tuples of caches and of tensors whose first axis is the batch, so that `select_rows` can reorder it. Padding
    (document 0) leaves the state unchanged. `step` may write into the state it is given, so use each state only once.

    Class attributes:
        attends: whether it uses positions that act on queries, keys or scores.
    """

    attends: ClassVar[bool] = False

    @abstractmethod
    def forward(self, x: Float[Tensor, "batch length d_model"], view: View) -> Float[Tensor, "batch length d_model"]:
        """Mix whole rows."""

    def prepare(self, view: View, dtype: torch.dtype) -> None:
        """Compute what it shares with other layers, such as masks, and cache it in the view.

        Args:
            dtype: of its matrix products.
        """

    @abstractmethod
    def step(self, x: New, view: View, state: Any) -> tuple[New, Any]:
        """Mix new tokens with the earlier ones in the state; return their outputs and the next state.

        Args:
            view: has the new tokens as queries and all tokens so far as keys.
            state: returned by the previous step; None: these are the first tokens.
        """


mixers: Slot[Mixer] = Slot("mixer")


def select_rows(state: Any, rows: Int[Tensor, " chosen"]) -> Any:
    """Select rows of every tensor and cache in a state, as beam search reorders beams."""

    def take(x: Tensor | Cache) -> Tensor | Cache:
        return x.select_rows(rows) if isinstance(x, Cache) else x.index_select(0, rows)

    # a private module, but torch.export is built on it and transformers imports it
    return tree_map_only((Tensor, Cache), take, state)


def fix_shapes(state: Any) -> None:
    """Make every cache in a state fixed in shape (`Cache.fix_shape`)."""
    tree_map_only(Cache, Cache.fix_shape, state)


def tensors_of(state: Any) -> list[Tensor]:
    """All tensors of a state, those of its caches included."""
    leaves = (leaf.tensors if isinstance(leaf, Cache) else (leaf,) for leaf in tree_leaves(state))
    return [x for some in leaves for x in some if isinstance(x, Tensor)]


@torch.no_grad()
def copy_state(new: Any, state: Any) -> Any:
    """Copy a new state into the tensors of the old one, which have the same shapes; return the old one.

    CUDA graphs need this: they read and write fixed memory.
    """
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
        return self.attention.attend_itself(x, view)

    def prepare(self, view: View, dtype: torch.dtype) -> None:
        self.attention.prepare(view, dtype)

    def step(self, x: New, view: View, state: Cache | None) -> tuple[New, Cache]:
        new, window = self.attention.read(x, view), self.attention.window
        room = view.room if window is None else min(view.room, window)
        cache = self.attention.cache(new, room) if state is None else state.with_capacity(room)
        seen, added = view.visibility, x.shape[1]
        # shared by the layers: on a GPU, computing the slots takes three kernels
        slots = seen.cached(("slots", added, cache.room), lambda: cache.slots(seen.start, added))
        if added == 1:
            cache.write(new, slots, seen.n_keys)
            return self.attention.step(x, cache.read(), view.recent(cache.room)), cache
        # several new tokens: the first of them still see tokens that the last ones overwrite in the cache
        memory = cache.concatenate(new, seen.start)
        cache.write(new, slots, seen.n_keys)
        return self.attention.step(x, memory, view.last(memory.keys.shape[2])), cache


@mixers.register("recurrent")
class RecurrentMixer(Mixer):
    """A recurrent network; the output at each position is a linear map of the state after it.

    Source: Elman 1990; Schuster & Paliwal 1997 (both directions).

    Args:
        cell: a registered cell, which updates the state.
        d_state: width of the state of each direction; None: d_model.
        bidirectional: also read from right to left, unless the model is causal.
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
            vectors = keep_at_padding(vectors, self.cell.step(x[:, at], vectors), view.documents.numbers[:, at] > 0)
            seen.append(vectors[0])
        return self.output(torch.stack(seen, dim=1)), vectors.transpose(0, 1)


@mixers.register("convolution")
class ConvolutionMixer(Mixer):
    """Every position reads its neighbors at fixed distances, with one linear map per distance.

    Source: Gehring et al. 2017, arXiv:1705.03122; van den Oord et al. 2016, arXiv:1609.03499 (causal, dilation); Kaiser
    et al. 2018, arXiv:1706.03059 (depthwise).

    Args:
        kernel: number of positions read: if causal, the position itself and earlier ones; else centered on it.
        dilation: distance between them (tokens).
        depthwise: one weight per distance and feature, then one linear map of their sum, instead of a map per distance.
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
        self.taps = tap_offsets(kernel, dilation, causal)
        self.filters = nn.Conv1d(d_model, d_model, kernel, groups=d_model, bias=False) if depthwise else None
        self.output = IntoStream(d_model if depthwise else kernel * d_model, d_model)

    def convolve(
        self, x: Float[Tensor, "batch length d_model"], documents: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length d_model"]:
        read = neighbors(x, documents, self.taps)
        if self.filters is None:
            return self.output(read.flatten(2))
        # nn.Conv1d serves for its parameters, (d_model, 1, kernel), and their initialization; its kernel would read
        # across documents
        return self.output((read * self.filters.weight[:, 0].T.to(x.dtype)).sum(2))

    def forward(self, x: Float[Tensor, "batch length d_model"], view: View) -> Float[Tensor, "batch length d_model"]:
        return self.convolve(x, view.documents.numbers)

    def step(self, x: New, view: View, state: tuple[Tensor, Tensor] | None) -> tuple[New, tuple[Tensor, Tensor]]:
        """Mix new tokens; the state holds the last vectors that the convolution still reads, and their documents."""
        new, documents, reach = x.shape[1], view.documents.numbers, -self.taps[0]
        if state is None:
            state = x.new_zeros(len(x), reach, x.shape[2]), documents.new_zeros(len(x), reach)
        x, documents = torch.cat([state[0], x], dim=1), torch.cat([state[1], documents], dim=1)
        # padding moves to the front, so that the tokens of the text are adjacent
        order = (documents > 0).int().argsort(dim=1, stable=True)
        x, documents = x.gather(1, order[..., None].expand_as(x)), documents.gather(1, order)
        mixed = self.convolve(x, documents)
        # back to the row's order, of which only the new positions are asked for
        mixed = mixed.gather(1, order.argsort(dim=1)[..., None].expand_as(mixed))[:, -new:]
        return mixed, (x[:, new:], documents[:, new:])
