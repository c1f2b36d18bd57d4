"""Slot `backend`: what computes attention of given queries, keys and values. Supplied: nothing."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from zoo.blocks.documents import View
from zoo.blocks.dropout import dropout
from zoo.blocks.score import Score
from zoo.registry import Slot


@dataclass(frozen=True)
class Rule:
    """What a layer demands of its weights.

    Args:
        score: of turned queries and keys.
        window: a query sees keys at distances below it; None: all.
        sinks: logits of each head that take part in the softmax and carry no value.
        dropout: share of the weights dropped now.
    """

    score: Score
    window: int | None
    sinks: Float[Tensor, "heads sinks"] | None
    dropout: float


Queries = Float[Tensor, "batch heads queries width"]
Keys = Float[Tensor, "batch kv_heads memory width"]
Values = Float[Tensor, "batch kv_heads memory d_value"]
Heads = Float[Tensor, "batch heads queries d_value"]


class Backend(ABC):
    """Computes attention over whole rows, by the one rule of `View`.

    Weights that are to be shown are always those of `eager`, and what is read step by step, as in generation, is always
    computed by `sdpa`.

    Class attributes:
        device: the kind of device that has its kernels; None: any.
        capability: the least compute capability of that device.
        narrow: whether its kernels compute in bfloat16 and float16 only.
    """

    device: ClassVar[str | None] = None
    capability: ClassVar[tuple[int, int]] = (0, 0)
    narrow: ClassVar[bool] = False

    @abstractmethod
    def attend(self, queries: Queries, keys: Keys, values: Values, view: View, rule: Rule) -> Heads:
        """softmax(scores) V under the rule; a query that sees no key gets 0."""

    def obstacle(self, rule: Rule, d_key: int, d_value: int) -> str | None:
        """What its kernels do not know of a layer's demands, and what would help; None: they know all."""
        return None

    def refuses_bias(self) -> bool:
        """Whether its kernels add nothing to the scores, so that no position may."""
        return False


backends: Slot[Backend] = Slot("backend")


@backends.register("sdpa")
class Sdpa(Backend):
    """torch's scaled_dot_product_attention; what that does not know or is slow at, by the formula."""

    def attend(self, queries: Queries, keys: Keys, values: Values, view: View, rule: Rule) -> Heads:
        # torch's CPU kernels leave the fast path under dropout, where the formula with cheap random numbers is faster
        drops = rule.dropout > 0 and queries.device.type == "cpu"
        if drops or rule.score.scale is None:
            return eager(queries, keys, values, view, rule, None)
        return fused(queries, keys, values, view, rule)


@backends.register("eager")
class Eager(Backend):
    """The formula, step by step."""

    def attend(self, queries: Queries, keys: Keys, values: Values, view: View, rule: Rule) -> Heads:
        return eager(queries, keys, values, view, rule, None)


def fused(queries: Queries, keys: Keys, values: Values, view: View, rule: Rule) -> Heads:
    """torch's kernels; a query that sees no key gets 0."""
    keys, values, mask = keys.to(queries.dtype), values.to(queries.dtype), view.scores(rule.window)
    boolean = mask is not None and mask.dtype == torch.bool
    causal = rule.sinks is None and boolean and view.causal_only(rule.window)
    if rule.sinks is not None:
        mask, keys, values = with_sinks(mask, queries, keys, values, rule.sinks)
    elif mask is not None and not boolean:
        mask = mask.to(queries.dtype)
    return F.scaled_dot_product_attention(
        queries,
        keys,
        values,
        attn_mask=None if causal else mask,
        dropout_p=rule.dropout,
        is_causal=causal,
        scale=rule.score.scale,
        enable_gqa=keys.shape[1] != queries.shape[1],
    )


def in_one_dtype(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors in the dtype that matrix products are computed in: that of autocast, else the first one's."""
    kind = tensors[0].device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensors[0].dtype
    return tuple(tensor.to(dtype) for tensor in tensors)


def with_sinks(
    mask: Tensor | None, queries: Tensor, keys: Tensor, values: Tensor, sinks: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Sinks as keys of zeros, whose scores are their logits, with values of zeros."""
    n_sinks, shape = sinks.shape[1], queries.shape[:3]
    seen = queries.new_zeros(*shape, keys.shape[2])
    if mask is not None:
        seen = seen.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else seen + mask
    logits = sinks[None, :, None].expand(*shape, n_sinks).to(seen.dtype)
    keys, values = F.pad(keys, (0, 0, 0, n_sinks)), F.pad(values, (0, 0, 0, n_sinks))
    return torch.cat([seen, logits], dim=-1), keys, values


def eager(
    queries: Queries, keys: Keys, values: Values, view: View, rule: Rule, record: list[Tensor | None] | None
) -> Heads:
    """The formula itself, whose weights can be shown."""
    shared = queries.shape[1] // keys.shape[1]
    keys, values = (t.repeat_interleave(shared, dim=1).to(queries.dtype) for t in (keys, values))
    scores = rule.score.compare(queries, keys)
    mask, blind = view.opened(rule.window), view.blind(rule.window)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    n_keys = scores.shape[-1]
    if rule.sinks is not None:
        logits = rule.sinks[None, :, None].expand(*scores.shape[:3], -1)
        scores = torch.cat([scores, logits.to(scores.dtype)], dim=-1)
    weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))[..., :n_keys]
    if record is not None:
        record.append(weights if blind is None else weights.masked_fill(blind, 0.0))
    heads = dropout(weights.to(values.dtype), rule.dropout, True) @ values
    return heads if blind is None else heads.masked_fill(blind, 0.0)
