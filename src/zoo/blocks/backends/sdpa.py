"""Backend `sdpa`: torch's scaled_dot_product_attention."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from zoo.blocks.backends.backend import Backend, Heads, Keys, Queries, Rule, Values, backends
from zoo.blocks.backends.eager import EAGER
from zoo.blocks.rows.view import View
from zoo.blocks.score import scores

SHORT = 128  # keys
FEW = 64  # queries of a row: new places, or beams that read one source
MANY = 64  # heads of all rows: with fewer, starting operators takes longer than reading less memory saves
LONG = 32  # keys: products with fewer pay where these are whole tensors
ENOUGH = 4096  # scores of all rows: with fewer, torch's kernel on a copy in float32 is faster than two products
NARROW = (torch.bfloat16, torch.float16)  # what flash attention and cuDNN take
# On a GPU torch would choose cuDNN, which gives gradients of queries that are not numbers for some masks
# (https://github.com/pytorch/pytorch/issues/196678).
TAKE_MASKS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
# Nor for texts that are read or written, each of its own length: cuDNN makes a plan for each, in tens of milliseconds.
TAKE_LENGTHS = [SDPBackend.FLASH_ATTENTION, *TAKE_MASKS]


@backends.register("sdpa")
class Sdpa(Backend):
    """torch's scaled_dot_product_attention; what that lacks or is slow at, by the formula."""

    rank = 1

    def attend(self, queries: Queries, keys: Keys, values: Values, view: View, rule: Rule) -> Heads:
        known, slow = view.visibility.n_keys, is_slow(rule, queries.device)
        if not slow and reads_by_products(queries, keys, known, rule):
            return by_products(queries, keys, values, view, rule)
        if keys.shape[2] > known:  # spare slots of a cache, which products alone read
            keys, values = keys[:, :, :known], values[:, :, :known]
        if slow:
            return EAGER.attend(queries, keys, values, view, rule)
        if widens(queries.dtype, queries.device, keys.shape[2]):
            with torch.autocast("cpu", enabled=False):
                return self.attend(queries.float(), keys.float(), values.float(), view, rule).to(queries.dtype)
        keys, values = keys.to(queries.dtype), values.to(queries.dtype)
        causal = is_causal(view, rule)
        # kernels that are told of causality skip half of the work, and take no mask beside it
        mask = None if causal else view.addends(rule.window, queries.dtype)
        if rule.sinks is not None:
            mask, keys, values = with_sinks(mask, queries, keys, values, rule.sinks)
        shared = queries.shape[1] // keys.shape[1]
        if shared > 1 and queries.is_cuda and (mask is not None or queries.dtype not in NARROW):
            # the one fused kernel that takes masks, and float32, shares no keys among heads
            keys, values, shared = *(x.repeat_interleave(shared, dim=1) for x in (keys, values)), 1
        with kernels_for(queries, mask):
            return F.scaled_dot_product_attention(  # a query that sees no key gets 0
                queries, keys, values, mask, rule.dropout, causal, scale=rule.score.scale, enable_gqa=shared > 1
            )

    def prepare(self, view: View, rule: Rule, dtype: torch.dtype) -> None:
        device = view.documents.numbers.device
        if is_slow(rule, device):
            EAGER.prepare(view, rule, dtype)
        elif not is_causal(view, rule):
            view.addends(rule.window, torch.float32 if widens(dtype, device, view.visibility.n_keys) else dtype)

    def by_formula(self, rule: Rule, device: str) -> str | None:
        if not is_slow(rule, torch.device(device)):
            return None
        if rule.score.scale is None:
            return f"computes score '{scores.name_of(rule.score)}' by the formula"
        return f"computes attention dropout by the formula on a {device}, and attention.dropout is {rule.dropout}"

    def remembered(self, memory: Keys, rule: Rule) -> torch.dtype:
        """The dtype in which keys and values are best kept where one query after the other reads them.

        On a CPU torch's kernel for few queries takes float32 two to five times faster than bfloat16. Where there are
        many rows, half as much to read, and for beams to move at each step, weighs more. A score that is no inner
        product has weights of its own, whose dtype that of the memory stays.
        """
        if memory.device.type != "cpu" or rule.score.scale is None or self.in_parts(memory, rule):
            return memory.dtype
        return torch.promote_types(memory.dtype, torch.float32)

    def in_parts(self, memory: Keys, rule: Rule) -> bool:
        """Whether keys and values are read by products in bfloat16, which want whole tensors: see `Cache`."""
        many = memory.shape[0] * memory.shape[1] >= MANY
        return many and memory.device.type == "cpu" and memory.dtype == torch.bfloat16 and multiplies(rule)


SDPA = Sdpa()  # it holds nothing, so one serves all layers


def kernels_for(queries: Queries, mask: Tensor | None) -> AbstractContextManager[None]:
    """Among which kernels torch chooses."""
    if not queries.is_cuda or (mask is None and torch.is_grad_enabled()):
        return nullcontext()
    return sdpa_kernel(TAKE_LENGTHS if mask is None else TAKE_MASKS)


def widens(dtype: torch.dtype, device: torch.device, n_keys: int) -> bool:
    """Whether few keys are read in float32 though they are in bfloat16.

    On a CPU the backward pass of torch's kernel takes 1.5 times as long at 128 places as in float32, at 64 three times.
    """
    return dtype == torch.bfloat16 and n_keys <= SHORT and device.type == "cpu"


def is_causal(view: View, rule: Rule) -> bool:
    """Whether a query sees all keys up to its own place, of which there are several, and no sinks or biases count."""
    adds = rule.sinks is not None or (view.position is not None and view.position.biases)
    return view.visibility.causal_only(rule.window) and view.visibility.n_keys > 1 and not adds


def is_slow(rule: Rule, device: torch.device) -> bool:
    """Whether torch does not know a rule, or is slower than the formula.

    Its CPU kernels leave the fast path under dropout, where the formula with cheap random numbers is faster.
    """
    return rule.score.scale is None or (rule.dropout > 0 and device.type == "cpu")


def multiplies(rule: Rule) -> bool:
    """Whether weights come of inner products alone."""
    return rule.score.scale is not None and rule.sinks is None


def reads_by_products(queries: Queries, keys: Keys, known: int, rule: Rule) -> bool:
    """Whether few queries of a row read bfloat16 on a CPU, as in generation, and there are enough scores in all.

    Args:
        known: keys that are there; those behind them are spare.
    """
    if not queries.dtype == keys.dtype == torch.bfloat16 or queries.device.type != "cpu" or torch.is_grad_enabled():
        return False
    rows, heads, n, _ = queries.shape
    few, enough = n <= FEW, rows * heads * n * known >= ENOUGH and (known > LONG or keys.is_contiguous())
    return few and enough and multiplies(rule)


def by_products(queries: Queries, keys: Keys, values: Values, view: View, rule: Rule) -> Heads:
    """The formula as two products of matrices.

    Keys and values may have spare slots behind those that the view knows: zeros, which get a weight of 0.
    """
    mask, blind = view.opened(rule.window), view.visibility.blind(rule.window)
    (rows, heads, n, _), (_, groups, slots, _), known = queries.shape, keys.shape, view.visibility.n_keys
    assert rule.score.scale is not None
    asking = (queries * rule.score.scale).reshape(rows, groups, -1, queries.shape[-1])
    if keys.is_contiguous():  # oneDNN takes half the time for one query that it takes with the keys on the left
        scores = asking @ keys.transpose(-1, -2)
    else:  # on the right torch would copy them first
        scores = (keys @ asking.transpose(-1, -2)).transpose(-1, -2)
    if slots > known:
        scores[..., known:] = -torch.inf
    if mask is not None:
        apart = scores.reshape(rows, heads, n, -1)
        seen = apart[..., :known]
        seen.masked_fill_(~mask, -torch.inf) if mask.dtype == torch.bool else seen.add_(mask)
        scores = apart.view(rows, groups, -1, slots)
    said = (scores.softmax(-1) @ values).view(rows, heads, n, -1)
    return said if blind is None else said.masked_fill(blind, 0.0)


def with_sinks(
    mask: Tensor | None, queries: Tensor, keys: Tensor, values: Tensor, sinks: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Sinks as keys of zeros, whose scores are their logits, with values of zeros.

    Args:
        mask: what is added to the scores, in the dtype of the queries: kernels of GPUs take no other.
    """
    n_sinks, shape = sinks.shape[1], queries.shape[:3]
    seen = queries.new_zeros(()) if mask is None else mask
    logits = sinks[None, :, None].expand(*shape, n_sinks).to(queries.dtype)
    mask = torch.cat([seen.expand(*shape, keys.shape[2]), logits], dim=-1)
    return mask, F.pad(keys, (0, 0, 0, n_sinks)), F.pad(values, (0, 0, 0, n_sinks))
