"""Backend `sdpa`: torch's scaled_dot_product_attention (SDPA)."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from zoo.blocks.backends.backend import Backend, Heads, Keys, Queries, Rule, Values, backends
from zoo.blocks.backends.eager import EAGER
from zoo.blocks.rows.view import View
from zoo.blocks.score import scores

# thresholds, measured on CPUs; "products" are two bfloat16 matrix products in place of torch's kernel (`by_products`)
SHORT = 128  # keys: up to this number, bfloat16 is slower than float32 (`uses_float32`)
FEW = 64  # queries per row that products still pay for: new tokens, or beams that share one source
MANY = 64  # rows times heads: with fewer, the overhead of operators exceeds what reading bfloat16 saves
LONG = 32  # keys: with fewer, products pay only if the keys are contiguous
ENOUGH = 4096  # scores in the batch: with fewer, torch's kernel on a float32 copy is faster than products
NARROW = (torch.bfloat16, torch.float16)  # the dtypes that flash attention and cuDNN support
# With a mask, torch would choose cuDNN on a GPU, whose gradients of queries are NaN for some masks
# (https://github.com/pytorch/pytorch/issues/196678).
TAKE_MASKS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
# Without gradients (prediction, generation), lengths vary, and cuDNN takes tens of milliseconds to plan each new shape.
TAKE_LENGTHS = [SDPBackend.FLASH_ATTENTION, *TAKE_MASKS]
# Where the mask alone has a gradient, the memory-efficient kernel reads memory that is not there in its backward pass
# (https://github.com/pytorch/pytorch/issues/148476).
TAKE_MASKS_TO_LEARN = [SDPBackend.MATH]
lock = Lock()  # held while torch chooses among some kernels only


@backends.register("sdpa")
class Sdpa(Backend):
    """torch's scaled_dot_product_attention; plain torch operations where that is slow or lacks a feature."""

    rank = 1

    def attend(self, queries: Queries, keys: Keys, values: Values, view: View, rule: Rule) -> Heads:
        known, slow = view.visibility.n_keys, is_slow(rule, queries.device)
        if not slow and reads_by_products(queries, keys, known, rule):
            return by_products(queries, keys, values, view, rule)
        if keys.shape[2] > known:  # unwritten slots of a cache: only `by_products` handles them
            keys, values = keys[:, :, :known], values[:, :, :known]
        if slow:
            return EAGER.attend(queries, keys, values, view, rule)
        if uses_float32(queries.dtype, queries.device, keys.shape[2]):
            with torch.autocast("cpu", enabled=False):
                return self.attend(queries.float(), keys.float(), values.float(), view, rule).to(queries.dtype)
        keys, values = keys.to(queries.dtype), values.to(queries.dtype)
        causal = is_causal(view, rule)
        # with is_causal kernels skip half of the work, but then accept no mask
        mask = None if causal else view.additive_mask(rule.window, queries.dtype)
        if rule.sinks is not None:
            mask, keys, values = with_sinks(mask, queries, keys, values, rule.sinks)
        shared = queries.shape[1] // keys.shape[1]
        if shared > 1 and queries.is_cuda and (mask is not None or queries.dtype not in NARROW):
            # the memory-efficient kernel, the only fused one for masks and float32, has no grouped-query attention
            keys, values = (x.repeat_interleave(shared, dim=1) for x in (keys, values))
            shared = 1
        with kernels_for(queries, keys, values, mask):
            return F.scaled_dot_product_attention(  # a query that sees no key gets 0
                queries, keys, values, mask, rule.dropout, causal, scale=rule.score.scale, enable_gqa=shared > 1
            )

    def prepare(self, view: View, rule: Rule, dtype: torch.dtype) -> None:
        device = view.documents.numbers.device
        if is_slow(rule, device):
            EAGER.prepare(view, rule, dtype)
        elif not is_causal(view, rule):
            wide = torch.float32 if uses_float32(dtype, device, view.visibility.n_keys) else dtype
            view.additive_mask(rule.window, wide)

    def unfused(self, rule: Rule, device: str) -> str | None:
        if not is_slow(rule, torch.device(device)):
            return None
        if rule.score.scale is None:
            return f"computes score '{scores.name_of(rule.score)}' by the formula"
        return f"computes attention dropout by the formula on a {device}, and attention.dropout is {rule.dropout}"

    def cache_dtype(self, memory: Keys, rule: Rule) -> torch.dtype:
        """The fastest dtype for cached keys and values in step-by-step decoding.

        On a CPU torch's kernel for few queries is two to five times faster in float32 than in bfloat16. With many rows
        bfloat16 wins: half as much memory is read, and moved when beams are reordered. Scores that are no inner
        products have parameters of their own and keep the memory's dtype.
        """
        if memory.device.type != "cpu" or rule.score.scale is None or self.needs_whole_tensors(memory, rule):
            return memory.dtype
        return torch.promote_types(memory.dtype, torch.float32)

    def needs_whole_tensors(self, memory: Keys, rule: Rule) -> bool:
        """Whether keys and values are read by bfloat16 matrix products, which need whole tensors: see `Cache`."""
        many = memory.shape[0] * memory.shape[1] >= MANY
        return many and memory.device.type == "cpu" and memory.dtype == torch.bfloat16 and is_plain_product(rule)


SDPA = Sdpa()  # stateless, so all layers share one


def kernels_for(queries: Queries, keys: Keys, values: Values, mask: Tensor | None) -> AbstractContextManager[None]:
    """Context in which torch chooses among the kernels that are safe and fast for these inputs."""
    if not queries.is_cuda or (mask is None and torch.is_grad_enabled()):
        return nullcontext()
    kernels = TAKE_LENGTHS if mask is None else TAKE_MASKS
    if mask is not None and mask.requires_grad and not any(x.requires_grad for x in (queries, keys, values)):
        kernels = TAKE_MASKS_TO_LEARN  # a bias of positions above frozen layers
    return sdpa_kernel(kernels) if torch.compiler.is_compiling() else only(kernels)


@contextmanager
def only(kernels: list[SDPBackend]) -> Iterator[None]:
    """Context in which torch chooses among these kernels, for one thread at a time.

    `sdpa_kernel` sets flags of the whole process. If two threads were inside at once, as `nn.DataParallel` has one per
    GPU, each could run with the other's flags, and the last one to leave would set those of the first for good. A
    thread that does not limit the choice takes no lock: meanwhile it may get a slower kernel, never an unsafe one.
    """
    with lock, sdpa_kernel(kernels):
        yield


def uses_float32(dtype: torch.dtype, device: torch.device, n_keys: int) -> bool:
    """Whether to compute bfloat16 attention over few keys in float32.

    In bfloat16 the backward pass of torch's CPU kernel takes 1.5 times as long at 128 keys, and 3 times at 64.
    """
    return dtype == torch.bfloat16 and n_keys <= SHORT and device.type == "cpu"


def is_causal(view: View, rule: Rule) -> bool:
    """Whether `is_causal` is the whole mask: no padding, window, sinks or bias, and more than one key."""
    adds = rule.sinks is not None or (view.position is not None and view.position.biases)
    return view.visibility.causal_only(rule.window) and view.visibility.n_keys > 1 and not adds


def is_slow(rule: Rule, device: torch.device) -> bool:
    """Whether SDPA lacks the layer's score, or is slower than plain torch operations.

    With dropout, torch's CPU kernels leave their fast path; `eager` with byte dropout is faster.
    """
    return rule.score.scale is None or (rule.dropout > 0 and device.type == "cpu")


def is_plain_product(rule: Rule) -> bool:
    """Whether scores are inner products, without sinks."""
    return rule.score.scale is not None and rule.sinks is None


def reads_by_products(queries: Queries, keys: Keys, known: int, rule: Rule) -> bool:
    """Whether `by_products` is faster: few bfloat16 queries per row on a CPU, as in decoding, and enough scores.

    Args:
        known: number of written keys; the cache's slots after them are spare.
    """
    if not queries.dtype == keys.dtype == torch.bfloat16 or queries.device.type != "cpu" or torch.is_grad_enabled():
        return False
    rows, heads, n, _ = queries.shape
    few, enough = n <= FEW, rows * heads * n * known >= ENOUGH and (known > LONG or keys.is_contiguous())
    return few and enough and is_plain_product(rule)


def by_products(queries: Queries, keys: Keys, values: Values, view: View, rule: Rule) -> Heads:
    """Compute attention as two matrix products; heads that share keys are stacked along the queries.

    Keys and values may have spare slots after those that the view knows: zeros, which get a weight of 0.
    """
    mask, blind = view.nan_free_mask_and_bias(rule.window), view.visibility.sees_no_key(rule.window)
    (rows, heads, n, _), (_, groups, slots, _), known = queries.shape, keys.shape, view.visibility.n_keys
    assert rule.score.scale is not None
    # (rows, key heads, queries of all heads that share one, d_key)
    asking = (queries * rule.score.scale).reshape(rows, groups, -1, queries.shape[-1])
    if keys.is_contiguous():  # for one query, oneDNN takes half as long with the keys on the right
        scores = asking @ keys.transpose(-1, -2)
    else:  # on the right, torch would copy keys that are not contiguous
        scores = (keys @ asking.transpose(-1, -2)).transpose(-1, -2)
    if slots > known:
        scores[..., known:] = -torch.inf
    if mask is not None:
        apart = scores.reshape(rows, heads, n, -1)
        seen = apart[..., :known]
        if mask.dtype == torch.bool:
            seen.masked_fill_(~mask, -torch.inf)
        else:
            seen.add_(mask)
        scores = apart.view(rows, groups, -1, slots)
    output = (scores.softmax(-1) @ values).view(rows, heads, n, -1)
    return output if blind is None else output.masked_fill(blind, 0.0)


def with_sinks(
    mask: Tensor | None, queries: Tensor, keys: Tensor, values: Tensor, sinks: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Append sinks to the mask, keys and values: zero keys and values, with the sinks' logits in the mask.

    Args:
        mask: additive, in the dtype of the queries, the only one that GPU kernels accept; None: nothing is masked.
        sinks: logits (heads, sinks).
    """
    n_sinks, shape = sinks.shape[1], queries.shape[:3]
    seen = queries.new_zeros(()) if mask is None else mask
    logits = sinks[None, :, None].expand(*shape, n_sinks).to(queries.dtype)
    mask = torch.cat([seen.expand(*shape, keys.shape[2]), logits], dim=-1)
    return mask, F.pad(keys, (0, 0, 0, n_sinks)), F.pad(values, (0, 0, 0, n_sinks))
