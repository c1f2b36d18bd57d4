"""Slot `attention`: how queries read a memory. Supplied: d_model, n_heads, d_memory."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.blocks.documents import View
from zoo.blocks.dropout import dropout
from zoo.blocks.norm import NormOption, norms
from zoo.blocks.position import Position
from zoo.blocks.residual import IntoStream
from zoo.registry import Slot


class Reading(NamedTuple):
    """A memory as keys and values."""

    keys: Float[Tensor, "batch kv_heads memory d_key"]
    values: Float[Tensor, "batch kv_heads memory d_value"]


def refuse_uneven(d_model: int, n_heads: int, n_kv_heads: int, d_key: int | None) -> None:
    """Check that heads divide the width, and groups the heads.

    Raises:
        ValueError: they do not.
    """
    if d_key is None and d_model % n_heads:
        fitting = ", ".join(str(n) for n in range(1, 2 * n_heads + 1) if d_model % n == 0)
        problem = f"d_model ({d_model}) must be a multiple of n_heads ({n_heads}), or d_key be given"
        raise ValueError(f"{problem}; n_heads that fit: {fitting}")
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ValueError(f"n_heads ({n_heads}) must be a multiple of n_kv_heads ({n_kv_heads})")


def head_widths(d_model: int, n_heads: int, d_key: int | None, d_value: int | None) -> tuple[int, int]:
    """d_key and d_value: as given, else d_model / n_heads (d_value: d_key, where that is no whole number)."""
    even = None if d_model % n_heads else d_model // n_heads
    d_key = d_key or d_model // n_heads
    return d_key, d_value or even or d_key


class Attention(nn.Module):
    """softmax(Q K' / sqrt(d_key)) V for each head, concatenated and mapped back.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.

    Args:
        n_kv_heads: heads of keys and values, each shared by n_heads / n_kv_heads heads of queries.
        window: a query sees keys at distances below it (tokens); None: all.
        d_key, d_value: width of a head; None: d_model / n_heads (d_value: d_key, where that is no whole number).
        bias: whether the four maps have biases.
        qk_norm: normalize queries and keys of each head (Dehghani et al. 2023, arXiv:2302.05442): a registered norm,
            or true for rmsnorm.
        sinks: learned logits of each head that take part in the softmax and carry no value (Xiao et al. 2023,
            arXiv:2309.17453, in the form of gpt-oss); true is 1.
        dropout: share of the weights dropped in training.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_memory: int | None,
        n_kv_heads: int,
        *,
        window: int | None,
        d_key: int | None,
        d_value: int | None,
        bias: bool,
        qk_norm: bool | NormOption,
        sinks: bool | int,
        dropout: float,
    ) -> None:
        super().__init__()
        refuse_uneven(d_model, n_heads, n_kv_heads, d_key)
        if window is not None and window < 1:
            raise ValueError(f"window ({window}) must be at least 1: a place sees itself")
        for name, value, least in (("d_key", d_key, 1), ("d_value", d_value, 1), ("sinks", int(sinks), 0)):
            if value is not None and value < least:
                raise ValueError(f"{name} ({value}) must be at least {least}")
        if not 0 <= dropout < 1:
            raise ValueError(f"attention dropout ({dropout}) must be at least 0 and below 1")
        self.d_key, self.d_value = head_widths(d_model, n_heads, d_key, d_value)
        self.n_heads, self.n_kv_heads, self.window, self.dropout = n_heads, n_kv_heads, window, dropout
        d_memory = d_memory or d_model
        self.query = nn.Linear(d_model, n_heads * self.d_key, bias)
        self.key = nn.Linear(d_memory, n_kv_heads * self.d_key, bias)
        self.value = nn.Linear(d_memory, n_kv_heads * self.d_value, bias)
        self.output = IntoStream(n_heads * self.d_value, d_model, bias)
        kind = "rmsnorm" if qk_norm is True else qk_norm
        self.query_norm = norms.build(kind, self.d_key) if kind else None
        self.key_norm = norms.build(kind, self.d_key) if kind else None
        self.sinks = nn.Parameter(torch.zeros(n_heads, int(sinks))) if sinks else None

    def read(
        self,
        memory: Float[Tensor, "batch memory d_memory"],
        at: Int[Tensor, "batch memory"] | None,
        position: Position | None,
    ) -> Reading:
        """Keys and values of a memory; `at` are its positions."""
        keys = self.key(memory).unflatten(-1, (self.n_kv_heads, self.d_key)).transpose(1, 2)
        values = self.value(memory).unflatten(-1, (self.n_kv_heads, self.d_value)).transpose(1, 2)
        if self.key_norm is not None:
            keys = self.key_norm(keys)
        if position is not None and at is not None:
            keys = position.rotate(keys, at)
        return Reading(keys, values)

    def forward(
        self,
        x: Float[Tensor, "batch queries d_model"],
        reading: Reading,
        view: View,
        record: list[Tensor | None] | None = None,
    ) -> Float[Tensor, "batch queries d_model"]:
        """Read a memory; with a `record`, its weights (batch, heads, queries, memory) are appended to it."""
        queries = self.query(x).unflatten(-1, (self.n_heads, self.d_key)).transpose(1, 2)
        if self.query_norm is not None:
            queries = self.query_norm(queries)
        if view.position is not None:
            queries = view.position.rotate(queries, view.positions)
        # torch's CPU kernels leave the fast path under dropout, where the formula with cheap random numbers is faster
        drops = self.training and self.dropout > 0 and queries.device.type == "cpu"
        if record is None and not drops:
            heads = self.fused(queries, reading, view)
        else:
            heads = self.eager(queries, reading, view, record)
        out: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return out

    def fused(self, queries: Tensor, reading: Reading, view: View) -> Float[Tensor, "batch heads queries d_value"]:
        """torch's kernels; a query that sees no key gets 0."""
        keys, values = (t.to(queries.dtype) for t in reading)
        mask = view.scores(self.window)
        causal = self.sinks is None and mask is not None and mask.dtype == torch.bool and view.causal_only(self.window)
        if self.sinks is not None:
            mask, keys, values = self.with_sinks(mask, keys, values, queries)
        elif mask is not None and mask.dtype != torch.bool:
            mask = mask.to(queries.dtype)
        return F.scaled_dot_product_attention(
            queries,
            keys,
            values,
            attn_mask=None if causal else mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=causal,
            enable_gqa=self.n_kv_heads != self.n_heads,
        )

    def with_sinks(
        self, mask: Tensor | None, keys: Tensor, values: Tensor, queries: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Sinks as keys of zeros, whose scores are their logits, with values of zeros."""
        assert self.sinks is not None
        n_sinks, shape = self.sinks.shape[1], (len(keys), self.n_heads, queries.shape[2])
        seen = queries.new_zeros(*shape, keys.shape[2])
        if mask is not None:
            seen = seen.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else seen + mask
        logits = self.sinks[None, :, None].expand(*shape, n_sinks).to(seen.dtype)
        keys, values = F.pad(keys, (0, 0, 0, n_sinks)), F.pad(values, (0, 0, 0, n_sinks))
        return torch.cat([seen, logits], dim=-1), keys, values

    def eager(
        self, queries: Tensor, reading: Reading, view: View, record: list[Tensor | None] | None
    ) -> Float[Tensor, "batch heads queries d_value"]:
        """The formula itself, whose weights can be shown."""
        shared = self.n_heads // self.n_kv_heads
        keys, values = (t.repeat_interleave(shared, dim=1).to(queries.dtype) for t in reading)
        scores = (queries * self.d_key**-0.5) @ keys.transpose(-1, -2)
        mask, blind = view.opened(self.window), view.blind(self.window)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        n_keys = scores.shape[-1]
        if self.sinks is not None:
            logits = self.sinks[None, :, None].expand(*scores.shape[:3], -1)
            scores = torch.cat([scores, logits.to(scores.dtype)], dim=-1)
        weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))[..., :n_keys]
        if record is not None:
            record.append(weights if blind is None else weights.masked_fill(blind, 0.0))
        heads = dropout(weights.to(values.dtype), self.dropout, self.training) @ values
        return heads if blind is None else heads.masked_fill(blind, 0.0)


attentions: Slot[Attention] = Slot("attention")


@attentions.register("full")
class FullAttention(Attention):
    """Every head of queries has keys and values of its own.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_memory: int | None = None,
        *,
        window: int | None = None,
        d_key: int | None = None,
        d_value: int | None = None,
        bias: bool = True,
        qk_norm: bool | NormOption = False,
        sinks: bool | int = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            d_model,
            n_heads,
            d_memory,
            n_heads,
            window=window,
            d_key=d_key,
            d_value=d_value,
            bias=bias,
            qk_norm=qk_norm,
            sinks=sinks,
            dropout=dropout,
        )


@attentions.register("grouped")
class GroupedAttention(Attention):
    """Groups of heads share keys and values; one group is multi-query attention.

    Source: Ainslie et al. 2023, arXiv:2305.13245; Shazeer 2019, arXiv:1911.02150 (one group).

    Args:
        n_kv_heads: number of groups; it divides n_heads.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_memory: int | None = None,
        *,
        n_kv_heads: int,
        window: int | None = None,
        d_key: int | None = None,
        d_value: int | None = None,
        bias: bool = True,
        qk_norm: bool | NormOption = False,
        sinks: bool | int = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            d_model,
            n_heads,
            d_memory,
            n_kv_heads,
            window=window,
            d_key=d_key,
            d_value=d_value,
            bias=bias,
            qk_norm=qk_norm,
            sinks=sinks,
            dropout=dropout,
        )
