"""Backend `blocked`: the formula on a CPU, some queries at a time, with a backward pass of its own."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from zoo.blocks.backends.backend import Backend, Heads, Keys, Queries, Rule, Values, backends, in_one_dtype
from zoo.blocks.dropout import draw_kept, dropped_steps, enlarged
from zoo.blocks.position import Position, positions
from zoo.blocks.rows.view import View

QUERIES = 128  # of a row at a time, where they see less than all keys: the rest is not computed
WEIGHTS = 2**21  # at a time, of some rows, that they stay in the processor's cache; of a single row four times as many
REMEMBERED = 128  # keys: the weights of longer rows would be most of a layer's memory, and are computed again

Weights = Float[Tensor, "rows heads asking answering"]


@backends.register("blocked")
class Blocked(Backend):
    """softmax(QK') V as matrix products and softmaxes of torch, over blocks of queries and the keys that they can see.

    On CPUs with bfloat16 that takes a third to two thirds of the time of torch's fused kernel, whose backward pass is
    slow in that dtype.
    """

    device = "cpu"
    narrow = True
    rank = 2

    def attend(self, queries: Queries, keys: Keys, values: Values, view: View, rule: Rule) -> Heads:
        queries, keys, values = in_one_dtype(queries, keys, values)
        shared = queries.shape[1] // keys.shape[1]
        if shared > 1:
            keys, values = (x.repeat_interleave(shared, dim=1) for x in (keys, values))
        tiling = Tiling.of(view, rule.window, queries)
        assert rule.score.scale is not None
        with torch.autocast("cpu", enabled=False):
            given = [x.contiguous() for x in (queries * rule.score.scale, keys, values)]
            recorded = torch.is_grad_enabled() and any(x.requires_grad for x in given)
            heads: Tensor = BlockedAttention.apply(*given, tiling, rule.dropout, recorded)  # type: ignore[no-untyped-call]
        return heads

    def prepare(self, view: View, rule: Rule, dtype: torch.dtype) -> None:
        masks(view, rule.window, dtype)

    def obstacle(self, rule: Rule, d_key: int, d_value: int, position: Position | None) -> str | None:
        if rule.sinks is not None:
            return "knows no sinks"
        if rule.score.scale is None:
            return "knows no scores but inner products, which those of score 'additive' are not"
        if position is not None and position.biases:
            return f"adds nothing to the scores, which position '{positions.name_of(position)}' does"
        return None


class Tile(NamedTuple):
    """Queries that are computed together, and the keys that they may see."""

    rows: slice
    queries: slice
    keys: slice


class Tiling(NamedTuple):
    """What is computed together, and who sees whom.

    Args:
        tiles: together all queries of all rows.
        added: to the scores: -inf where a query may not see a key; None: nowhere. A query that sees none sees all.
        seeing: 0 where a query sees no key at all, else 1; None: everywhere.
    """

    tiles: list[Tile]
    added: Float[Tensor, "rows 1 queries keys"] | None
    seeing: Float[Tensor, "rows 1 queries 1"] | None

    @staticmethod
    def of(view: View, window: int | None, queries: Queries) -> "Tiling":
        """Of one layer."""
        visibility = view.visibility
        rows, heads, length, _ = queries.shape
        n_keys = visibility.n_keys
        # only where queries and keys are the same places does a distance between them bound what is seen
        aligned = length == n_keys and visibility.key_places is None and isinstance(visibility.start, int)
        back, ahead = visibility.reach(window) if aligned and visibility.start == 0 else (None, None)
        some = max(QUERIES, 4 * WEIGHTS // max(1, heads * n_keys)) if back is None and ahead is None else QUERIES
        some = max(1, min(length, some))
        pieces = []
        for start in range(0, length, some):
            stop = min(start + some, length)
            first = 0 if back is None else max(0, start - back)
            last = n_keys if ahead is None else min(n_keys, stop + ahead)
            pieces.append((slice(start, stop), slice(first, last)))
        step = max(1, WEIGHTS // max(1, heads * some * n_keys))
        together = [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
        tiles = [Tile(few, asking, answering) for few in together for asking, answering in pieces]
        return Tiling(tiles, *masks(view, window, queries.dtype))

    @property
    def several(self) -> bool:
        """Whether a key may be seen by queries of several tiles."""
        return len({tile.queries.start for tile in self.tiles}) > 1

    def weigh(self, queries: Queries, keys: Keys, tile: Tile) -> Weights:
        """The weights of a tile: 0 where nothing may be seen, but by a query that sees nothing."""
        rows, asking, answering = tile
        scores = queries[rows, :, asking] @ keys[rows, :, answering].transpose(-1, -2)
        if self.added is not None:
            scores += (self.added[rows] if len(self.added) > 1 else self.added)[:, :, asking, answering]
        return scores.softmax(-1)


def masks(view: View, window: int | None, dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
    """`added` and `seeing` of a tiling, the same for all layers: numbers, since booleans take ten times as long."""
    opened, blind = view.opened(window), view.visibility.blind(window)

    def add() -> Tensor | None:
        return None if opened is None else torch.zeros_like(opened, dtype=dtype).masked_fill_(~opened, -torch.inf)

    added: Tensor | None = view.once(("added", window, dtype), add)
    return added, view.once(("seeing", window, dtype), lambda: None if blind is None else (~blind).to(dtype))


class BlockedAttention(torch.autograd.Function):
    """dropout(softmax(Q'K)) V for scaled queries; a query that sees no key gets 0.

    With weights P, of which D are left and enlarged by dropout, and the gradient G of what is said: that of V is D'G,
    that of P is R = GV' where nothing was dropped, and that of the scores P (R - rowsum(R P)).
    """

    @staticmethod
    def forward(
        ctx: Any, queries: Queries, keys: Keys, values: Values, tiling: Tiling, dropout: float, recorded: bool
    ) -> Heads:
        said = heads_like(queries, values.shape[-1])
        dropped, kept, remembered = dropped_steps(dropout), [], keys.shape[2] <= REMEMBERED
        for tile in tiling.tiles:
            rows, asking, answering = tile
            weights = tiling.weigh(queries, keys, tile)
            left = [draw_kept(weights, dropped)] if dropped else []
            said[rows, :, asking] = (weights * left[0] if dropped else weights) @ values[rows, :, answering]
            kept += [*([weights] if remembered else []), *left] if recorded else []
        ctx.save_for_backward(queries, keys, values, *kept)
        ctx.tiling, ctx.dropped, ctx.remembered = tiling, dropped, remembered
        return scale_(said, tiling.seeing, dropped)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, values, *kept = ctx.saved_tensors
        dropped, waiting = ctx.dropped, iter(kept)
        gradient = scale_(gradient.clone(memory_format=torch.contiguous_format), ctx.tiling.seeing, dropped)
        of_queries = heads_like(queries, queries.shape[-1])
        of_keys, of_values = heads_like(keys, keys.shape[-1]), heads_like(values, values.shape[-1])
        write: Callable[[Tensor, Tensor], Tensor] = Tensor.copy_
        if ctx.tiling.several:  # tiles add up, which bfloat16 would round too often
            of_keys, of_values = (x.new_zeros(x.shape, dtype=at_least_float32(x)) for x in (of_keys, of_values))
            write = Tensor.add_
        for tile in ctx.tiling.tiles:
            rows, asking, answering = tile
            weights = next(waiting) if ctx.remembered else ctx.tiling.weigh(queries, keys, tile)
            of_weights = gradient[rows, :, asking] @ values[rows, :, answering].transpose(-1, -2)
            if dropped:
                left = next(waiting)
                of_weights *= left
                left = weights * left
            else:
                left = weights
            of_scores = torch.ops.aten._softmax_backward_data(of_weights, weights, -1, weights.dtype)
            of_queries[rows, :, asking] = of_scores @ keys[rows, :, answering]
            write(of_keys[rows, :, answering], of_scores.transpose(-1, -2) @ queries[rows, :, asking])
            write(of_values[rows, :, answering], left.transpose(-1, -2) @ gradient[rows, :, asking])
        return of_queries, of_keys.to(keys.dtype), of_values.to(values.dtype), None, None, None


def scale_(heads: Heads, seeing: Tensor | None, dropped: int) -> Heads:
    """What is said, or its gradient: 0 for queries that see nothing, and larger where weights were dropped."""
    if seeing is not None:
        heads *= seeing
    return heads.mul_(enlarged(dropped)) if dropped else heads


def at_least_float32(x: Tensor) -> torch.dtype:
    """The dtype of sums of what is in a tensor."""
    return torch.promote_types(x.dtype, torch.float32)


def heads_like(x: Float[Tensor, "rows heads places width"], width: int) -> Heads:
    """Room for heads that lie place by place, as the map that comes after attention reads them."""
    rows, heads, places, _ = x.shape
    return x.new_empty(rows, places, heads, width).transpose(1, 2)
