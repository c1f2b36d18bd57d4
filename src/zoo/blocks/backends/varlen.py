"""Backend `varlen`: flash attention over concatenated documents of different lengths, without padding."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from zoo.blocks.backends.backend import Backend, Heads, Keys, Queries, Rule, Values, backends, in_one_dtype, pad_width
from zoo.blocks.backends.sdpa import SDPA
from zoo.blocks.position import Position
from zoo.blocks.rows.view import View, Visibility

WIDTHS, WIDEST = 8, 256  # the width of a head must be a multiple of 8, at most 256
WIDEST_OF_CUDNN = 128  # width of a head
# Width of a head. If it is wider and weights are dropped, torch has a backward kernel only for GPUs with as much shared
# memory as an A100. On others (compute capability 8.6, 8.9, 12.0) it launches none and returns uninitialized gradients,
# without an error (run_mha_bwd_hdim256, flash_bwd_launch_template.h). SDPA checks for that, this operator does not.
WIDEST_WITH_DROPOUT = 192


@backends.register("varlen")
class Varlen(Backend):
    """torch's variable-length flash attention: documents are computed separately, and padding costs nothing.

    Source: Dao 2023, arXiv:2307.08691. Heads are padded with zeros to a width that the kernel supports, which changes
    no score and no value. If the packer knows the borders, rows are read in place: no layer gathers tokens, and the
    host never waits for the GPU. The kernel rounds the dropout probability to multiples of 1/255. Two kinds of rows go
    to SDPA, which was faster on an H200: training rows that are one document each, and rows of many short documents.
    """

    device = "cuda"
    capability = (8, 0)
    narrow = True
    rank = 3

    def attend(self, queries: Queries, keys: Keys, values: Values, view: View, rule: Rule) -> Heads:
        (batch, n_heads, length, d_key), d_value = queries.shape, values.shape[-1]
        width = -(-max(d_key, d_value) // WIDTHS) * WIDTHS
        queries, keys, values = (pad_width(x, width) for x in in_one_dtype(queries, keys, values))
        if needs_no_ends(width, view, rule):
            shared, causal = keys.shape[1] != n_heads, view.visibility.causal
            # no mask, so that torch may choose cuDNN: see TAKE_MASKS in sdpa.py
            padded = F.scaled_dot_product_attention(
                queries, keys, values, is_causal=causal, scale=rule.score.scale, enable_gqa=shared
            )
            return padded[..., :d_value]
        if prefer_mask(view):
            return SDPA.attend(queries, keys, values, view, rule)[..., :d_value]
        asking, answering = cached_ends(view)
        back, ahead = (-1 if far is None else far for far in view.visibility.reach(rule.window))
        # the operator behind torch.nn.attention.varlen, which itself has no dropout, no grouped-query attention before
        # torch 2.12, and takes 3 seconds to import
        padded, *_ = torch.ops.aten._flash_attention_forward(
            end_to_end(queries, asking),
            end_to_end(keys, answering),
            end_to_end(values, answering),
            asking.ends,
            answering.ends,
            asking.longest,
            answering.longest,
            rule.dropout,
            (back, ahead) == (-1, 0),  # is_causal
            False,  # return_debug_mask
            scale=rule.score.scale,
            window_size_left=back,
            window_size_right=ahead,
        )
        heads: Tensor = padded[..., :d_value]
        if asking.places is not None:
            # 0 * heads instead of zeros, so that every parameter gets a gradient: DDP waits for all of them
            heads = heads if asking.any_document else 0 * heads
            heads = heads.new_zeros(batch * length, n_heads, d_value).index_copy(0, asking.places, heads)
        return heads.view(batch, length, n_heads, d_value).transpose(1, 2)

    def prepare(self, view: View, rule: Rule, dtype: torch.dtype) -> None:
        if prefer_mask(view):
            SDPA.prepare(view, rule, dtype)
        else:
            cached_ends(view)  # even if this layer needs none: layers with windows may need them

    def obstacle(self, rule: Rule, d_key: int, d_value: int, position: Position | None) -> str | None:
        if max(d_key, d_value) > WIDEST:
            return f"supports heads up to {WIDEST} wide, but d_key is {d_key}, d_value {d_value}"
        if rule.dropout and max(d_key, d_value) > WIDEST_WITH_DROPOUT:
            dropped = f"d_key is {d_key}, d_value {d_value}, and attention.dropout {rule.dropout}"
            return f"supports attention dropout in heads up to {WIDEST_WITH_DROPOUT} wide, but {dropped}"
        return rule.plain_kernel_obstacle(position)


def needs_no_ends(width: int, view: View, rule: Rule) -> bool:
    """Whether SDPA's cuDNN kernels can take the rows: in training, with one document per row and no window or dropout.

    cuDNN plans each new shape in tens of milliseconds, which pays off only in training, where all rows have one length.
    It would round the dropout probability to multiples of 1/16, and with fewer queries than keys it aligns the causal
    mask to the first key instead of the last.

    Args:
        width: of the padded heads.
    """
    seen = view.visibility
    whole = seen.whole and rule.window is None and (not seen.causal or seen.causal_only(None))
    return whole and width <= WIDEST_OF_CUDNN and rule.dropout == 0 and torch.is_grad_enabled()


def prefer_mask(view: View) -> bool:
    """Whether documents on both sides are so short that a mask is cheaper, or too many for one launch."""
    return view.visibility.queries.prefers_mask and view.visibility.keys.prefers_mask


@dataclass(frozen=True)
class PackedSide:
    """The documents of one side of an attention, concatenated; both sides list them in the same order.

    Args:
        ends: cumulative lengths of the documents from 0 (`cu_seqlens`).
        longest: an upper bound of the documents' lengths (tokens).
        places: flat index (row * length + index) of each token, document by document; None: the batch as it lies.
        any_document: whether there is one; if not, one dummy position is computed and its result multiplied by 0.
    """

    ends: Int[Tensor, " borders"]
    longest: int
    places: Int[Tensor, " places"] | None = None
    any_document: bool = True


def cached_ends(view: View) -> tuple[PackedSide, PackedSide]:
    """Documents of the queries and of the keys, cached for all layers."""
    return view.visibility.cached("ends", lambda: ends_of(view.visibility))


def ends_of(visibility: Visibility) -> tuple[PackedSide, PackedSide]:
    """Documents of the queries and of the keys: from the packer's borders, or else searched on the device."""
    borders = visibility.borders()
    if borders is None:
        return search_ends(visibility)
    asking, answering = borders
    return PackedSide(asking.queries, asking.longest), PackedSide(answering.keys, answering.longest)


def search_ends(visibility: Visibility) -> tuple[PackedSide, PackedSide]:
    """Search the documents that have both queries and keys; makes the host wait for the device."""
    sides = visibility.queries.numbers, visibility.keys.numbers
    # document k of row r gets the number r * most + k, so that one bincount counts the tokens of every document
    most = max(int(documents.max()) for documents in sides) + 1
    rows = most * torch.arange(len(sides[0]), device=sides[0].device)[:, None]
    numbers = [(rows + documents).flatten() for documents in sides]
    counts = [torch.bincount(number, minlength=most * len(rows)) for number in numbers]
    met = (counts[0] > 0) & (counts[1] > 0)
    met[::most] = False  # document 0 is none
    found = bool(met.any())

    def side(number: Tensor, count: Tensor) -> PackedSide:
        order = number.argsort(stable=True)  # stable: tokens keep their order within a document
        places = order[met[number[order]]] if found else order[:1]
        lengths = count[met] if found else torch.ones_like(count[:1])
        return PackedSide(F.pad(lengths.cumsum(0), (1, 0)).int(), int(lengths.max()), places, found)

    asking, answering = (side(number, count) for number, count in zip(numbers, counts, strict=True))
    return asking, answering


def end_to_end(x: Float[Tensor, "batch heads length width"], ends: PackedSide) -> Float[Tensor, "places heads width"]:
    """Concatenate the documents' tokens."""
    flat = x.transpose(1, 2).flatten(0, 1)
    return flat if ends.places is None else flat.index_select(0, ends.places)
