"""Backend `flex`: torch's flex attention, which compiles a kernel for each mask and bias."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    FlexKernelOptions,
    create_block_mask,
    flex_attention,
)

from zoo.blocks.backends.backend import Backend, Heads, Keys, Queries, Rule, Values, backends, in_one_dtype, pad_width
from zoo.blocks.backends.sdpa import SDPA
from zoo.blocks.position import Position
from zoo.blocks.rows.view import View, Visibility
from zoo.devices.compiling import compiled, with_fallback

LEAST_WIDTH = 16  # least width of a head in torch's kernels
# Greatest width of a head. Kernels for 192 need 107 to 173 KB of shared memory, and GPUs of compute capability 8.6 and
# 12.0 have 101; those for 320 need 263, and an H100 has 232 (torch 2.13, triton 3.6;
# https://github.com/pytorch/pytorch/issues/180278).
WIDEST = 128
GRAPHS = 128  # compiled graphs kept: kinds of layers, times training and evaluation, times static and dynamic shapes
# For rows below 128 tokens torch picks its decoding kernel, which finds no valid block sizes for grouped-query
# attention: "NoValidChoicesError" (torch 2.11 to 2.13, _inductor/kernel/flex/flex_decoding.py). This kernel takes rows
# of any length.
KERNEL: FlexKernelOptions = {"BACKEND": "TRITON"}


@backends.register("flex")
class Flex(Backend):
    """torch's flex attention: blocks of keys that no query of a block may see are skipped.

    Source: Dong et al. 2024, arXiv:2412.05496; torch.nn.attention.flex_attention. With sinks, the output is multiplied
    by the keys' share of the softmax: exp(lse) / (exp(lse) + sum exp(sinks)). On a CPU torch has no fused kernel for it
    and no backward pass.
    """

    device = "cuda"
    compiles = True
    rank = 2

    def __init__(self) -> None:
        self.kernel_or_sdpa = with_fallback(self.by_kernel, SDPA.attend)

    def attend(self, queries: Queries, keys: Keys, values: Values, view: View, rule: Rule) -> Heads:
        # inside a compiled block, a failing kernel fails the whole block, so there is nothing to fall back from here
        attend = self.by_kernel if torch.compiler.is_compiling() else self.kernel_or_sdpa
        heads: Tensor = attend(queries, keys, values, view, rule)
        return heads

    def by_kernel(self, queries: Queries, keys: Keys, values: Values, view: View, rule: Rule) -> Heads:
        """Compute attention with torch's kernel."""
        blocks = blocks_in(view, rule.window)
        queries, keys, values = in_one_dtype(queries, keys, values)
        d_value, grouped = values.shape[-1], keys.shape[1] != queries.shape[1]
        attention = compiled(flex_attention, GRAPHS, fullgraph=True) if queries.is_cuda else flex_attention
        heads, also = attention(
            *(pad_width(x, LEAST_WIDTH) for x in (queries, keys, values)),
            score_mod=make_score_mod(view),
            block_mask=blocks,
            scale=rule.score.scale,
            enable_gqa=grouped,
            kernel_options=KERNEL if queries.is_cuda else None,
            return_aux=AuxRequest(lse=rule.sinks is not None),
        )
        output: Tensor = heads[..., :d_value]
        if rule.sinks is None:
            return output
        share: Tensor = torch.sigmoid(also.lse - rule.sinks.to(also.lse.dtype).logsumexp(-1)[:, None])
        return output * share[..., None].to(output.dtype)

    def prepare(self, view: View, rule: Rule, dtype: torch.dtype) -> None:
        blocks_in(view, rule.window)
        make_score_mod(view)

    def obstacle(self, rule: Rule, d_key: int, d_value: int, position: Position | None) -> str | None:
        if rule.dropout:
            return f"does not support attention dropout, but attention.dropout is {rule.dropout}"
        if max(d_key, d_value) > WIDEST:
            return f"supports heads up to {WIDEST} wide, but d_key is {d_key}, d_value {d_value}"
        return rule.score_obstacle()


def blocks_in(view: View, window: int | None) -> BlockMask:
    """The block mask for a window, cached for all layers with this window."""
    return view.visibility.cached(("blocks", window), lambda: blocks_of(view.visibility, window))


def blocks_of(visibility: Visibility, window: int | None) -> BlockMask:
    """Compute the block mask: which blocks of queries and keys are needed, and the mask inside each."""
    mine, theirs = visibility.queries.numbers, visibility.keys.numbers
    (batch, length), n_keys = mine.shape, theirs.shape[1]
    back, ahead = (max(length, n_keys) if far is None else far for far in visibility.reach(window))
    # tensors, since torch would compile a kernel per pair of Python numbers; `full` on the device needs no host copy
    nearest, farthest = (torch.full((), far, device=mine.device) for far in (-ahead, back))
    create = (
        with_fallback(compiled(create_block_mask, GRAPHS), create_block_mask) if mine.is_cuda else create_block_mask
    )
    blocks: BlockMask = create(
        lambda row, head, query, key: (
            (mine[row, query] == theirs[row, key])
            & (mine[row, query] > 0)
            & (query - key >= nearest)
            & (query - key <= farthest)
        ),
        batch,
        None,
        length,
        n_keys,
        device=str(mine.device),
    )
    return blocks


def make_score_mod(view: View) -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor] | None:
    """Return flex attention's `score_mod` that adds the position's bias; None: the position adds none."""
    position = view.position
    if position is None or not position.biases:
        return None
    n_keys = view.visibility.keys.numbers.shape[1]
    biases = view.cached("biases", lambda: by_distance(position, view.visibility))
    return lambda score, row, head, query, key: score + biases[head, query - key + n_keys - 1]


def by_distance(position: Position, visibility: Visibility) -> Float[Tensor, "heads distances"]:
    """Bias per distance of a query from a key, from `1 - n_keys` on; it depends on differences of indices alone."""
    mine, n_keys = visibility.queries.numbers, visibility.keys.numbers.shape[1]
    queries = torch.arange(mine.shape[1] + n_keys - 1, device=mine.device)
    bias = position.bias(queries, queries[n_keys - 1 : n_keys])
    assert bias is not None
    return bias[..., 0].contiguous()  # one layout for all positions, so that they share a kernel
