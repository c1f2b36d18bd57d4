"""Backend `blocked`: attention on CPUs, computed block by block, with its own backward pass."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from zoo.blocks.backends.backend import Backend, Heads, Keys, Queries, Rule, Values, backends, in_one_dtype
from zoo.blocks.backends.tiling import Region, Tile, Tiling, masks, part_of
from zoo.blocks.dropout import draw_kept, dropped_steps, keep_scale
from zoo.blocks.position import Position
from zoo.blocks.rows.view import View
from zoo.devices.precision import has_amx

FUSED = has_amx()  # whether torch's fused kernel has the faster forward pass; its backward pass is slower either way
MAX_SAVED_KEYS = 128  # weights are saved for backward up to this length; beyond it they are recomputed to save memory

Weights = Float[Tensor, "rows heads asking answering"]
Write = Callable[[Tensor, Tensor], Tensor]


@backends.register("blocked")
class Blocked(Backend):
    """softmax(QK') V as torch's matrix products and softmaxes, over blocks of queries and the keys that they can see.

    In bfloat16 on a CPU this takes a third to two thirds of the time of torch's fused kernel, whose backward pass is
    slow. With AMX the fused forward pass is faster, and is used where no weights are dropped or saved for backward.
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
            heads: Tensor = BlockedAttention.apply(*given, tiling, rule, recorded)  # type: ignore[no-untyped-call]
        return heads

    def prepare(self, view: View, rule: Rule, dtype: torch.dtype) -> None:
        masks(view, rule.window, dtype)

    def obstacle(self, rule: Rule, d_key: int, d_value: int, position: Position | None) -> str | None:
        return rule.plain_kernel_obstacle(position)


class BlockedAttention(torch.autograd.Function):
    """dropout(softmax(QK')) V for queries that are already scaled; a query that sees no key gets 0.

    With weights P, D = dropout(P) and the gradient G of the output, the gradient of V is D'G; that of P is R = GV',
    set to 0 where a weight was dropped and scaled as D; and that of the scores is P (R - rowsum(R P)).
    """

    @staticmethod
    def forward(
        ctx: Any, queries: Queries, keys: Keys, values: Values, tiling: Tiling, rule: Rule, recorded: bool
    ) -> Heads:
        kept: list[Tensor] = []  # per tile: its weights if remembered, then its dropout mask
        dropped, remembered = dropped_steps(rule.dropout), recorded and keys.shape[2] <= MAX_SAVED_KEYS
        alike = queries.shape[-1] == values.shape[-1]  # the fused kernel needs d_key = d_value
        if FUSED and alike and not (dropped or remembered):
            output = fused(queries, keys, values, tiling)
        else:
            output = heads_like(queries, values.shape[-1], tiling)
            for tile in tiling.tiles:
                weights = weigh(queries, keys, tile, tiling)
                left = [draw_kept(weights, dropped, rule.byte_dropout)] if dropped else []
                heads = (weights * left[0].to(weights.dtype) if dropped else weights) @ values[tile.rows, :, tile.keys]
                write_own(Tensor.copy_, output, tile.queries, tile, heads)
                kept += [*([weights] if remembered else []), *(left if recorded else [])]
        ctx.save_for_backward(queries, keys, values, *kept)
        ctx.tiling, ctx.dropped, ctx.remembered = tiling, dropped, remembered
        return scale_(output, tiling.sees_any, dropped)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, values, *kept = ctx.saved_tensors
        tiling, dropped, waiting = ctx.tiling, ctx.dropped, iter(kept)
        gradient = scale_(gradient.clone(memory_format=torch.contiguous_format), tiling.sees_any, dropped)
        of_queries, of_keys, of_values = (heads_like(x, x.shape[-1], tiling) for x in (queries, keys, values))
        write: Write = Tensor.copy_
        sums = of_keys, of_values
        if tiling.shares_keys:  # several tiles add to one key: accumulate in float32
            write, sums = Tensor.add_, (sums_like(keys), sums_like(values))
        for tile in tiling.tiles:
            rows, asking, answering = tile.rows, tile.queries, tile.keys
            weights = next(waiting) if ctx.remembered else weigh(queries, keys, tile, tiling)
            of_weights = gradient[rows, :, asking] @ values[rows, :, answering].transpose(-1, -2)
            if dropped:  # `gradient` is scaled by 1 / (1 - p) already, so the mask alone is enough here
                left = next(waiting).to(weights.dtype)
                of_weights *= left
                left *= weights  # now D, without its scale
            else:
                left = weights
            # torch's own kernel for P (R - rowsum(R P))
            of_scores = torch.ops.aten._softmax_backward_data(of_weights, weights, -1, weights.dtype)
            write_own(Tensor.copy_, of_queries, asking, tile, of_scores @ keys[rows, :, answering])
            write_own(write, sums[0], answering, tile, of_scores.transpose(-1, -2) @ queries[rows, :, asking])
            write_own(write, sums[1], answering, tile, left.transpose(-1, -2) @ gradient[rows, :, asking])
        if tiling.shares_keys:
            of_keys.copy_(sums[0])
            of_values.copy_(sums[1])
        return of_queries, of_keys, of_values, None, None, None


def fused(queries: Queries, keys: Keys, values: Values, tiling: Tiling) -> Heads:
    """Compute attention without dropout with torch's fused kernel, region by region."""
    found = []
    for rows, asking, answering, _, masked in tiling.regions:
        added = tiling.mask_for(rows, asking, answering) if masked else None
        given = queries[rows, :, asking], keys[rows, :, answering], values[rows, :, answering]
        found.append(F.scaled_dot_product_attention(*given, added, is_causal=tiling.causal and not masked, scale=1.0))
    if len(found) == 1 and tiling.covers_all:
        return found[0]
    output = heads_like(queries, values.shape[-1], tiling)
    for region, heads in zip(tiling.regions, found, strict=True):
        write_own(Tensor.copy_, output, region.queries, region, heads)
    return output


def write_own(write: Write, into: Tensor, places: slice, of: Region | Tile, found: Tensor) -> None:
    """Write `found`, the result for `places` in all heads, to `into`, except positions that another region owns."""
    own = part_of(places, of.own)
    if own != places:
        found = found[:, :, own.start - places.start : own.stop - places.start]
    write(into[of.rows, :, own], found)


def weigh(queries: Queries, keys: Keys, tile: Tile, tiling: Tiling) -> Weights:
    """Attention weights of a tile: 0 for masked keys, except that a query that sees no key sees all."""
    rows, asking, answering, _, masked = tile
    scores = queries[rows, :, asking] @ keys[rows, :, answering].transpose(-1, -2)
    added = tiling.mask_for(rows, asking, masked)
    if added is not None:
        scores[..., masked.start - answering.start : masked.stop - answering.start] += added
    return scores.softmax(-1)


def scale_(heads: Heads, seeing: Tensor | None, dropped: int) -> Heads:
    """Scale the output or its gradient in place: 0 for queries that see no key, and dropout's 1 / (1 - p)."""
    if seeing is not None:
        heads *= seeing
    return heads.mul_(keep_scale(dropped)) if dropped else heads


def sums_like(x: Tensor) -> Tensor:
    """Zeros of the same shape in at least float32, contiguous, as the products to be added are."""
    return torch.zeros(x.shape, dtype=torch.promote_types(x.dtype, torch.float32))


def heads_like(x: Float[Tensor, "rows heads places width"], width: int, tiling: Tiling) -> Heads:
    """Allocate heads with memory layout (rows, positions, heads, width), which the output projection reads.

    Positions that no region covers see nothing and are 0.
    """
    rows, heads, places, _ = x.shape
    make = x.new_empty if tiling.covers_all else x.new_zeros
    return make(rows, places, heads, width).transpose(1, 2)
