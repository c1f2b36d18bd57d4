"""Slot `attention`: how queries read a memory. Supplied: d_model, n_heads, d_memory."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from zoo.blocks.backends.backend import Backend, Rule
from zoo.blocks.backends.eager import eager
from zoo.blocks.backends.sdpa import Sdpa
from zoo.blocks.documents import View
from zoo.blocks.norm import NormOption, norms
from zoo.blocks.position import Position
from zoo.blocks.residual import IntoScores, IntoStream
from zoo.blocks.score import ScoreOption, scores
from zoo.registry import Slot


class KeysValues(NamedTuple):
    """A memory as keys, turned as the score compares them, and values."""

    keys: Float[Tensor, "batch kv_heads memory width"]
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
    """softmax(score(Q, K)) V for each head, concatenated and mapped back.

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
        score: how well queries and keys agree; the fused kernels serve those that are inner products.

    Attributes:
        width: of what it returns.
        crosses: whether it reads a memory of another part rather than its own input.
        backend: what computes it over whole rows.
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
        score: ScoreOption,
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
        self.crosses = d_memory is not None
        self.backend: Backend = Sdpa()
        self.build_maps(d_model, d_memory or d_model, bias)
        kind = "rmsnorm" if qk_norm is True else qk_norm
        self.query_norm = norms.build(kind, self.d_key) if kind else None
        self.key_norm = norms.build(kind, self.d_key) if kind else None
        self.sinks = nn.Parameter(torch.zeros(n_heads, int(sinks))) if sinks else None
        self.score = scores.build(score, self.d_query, self.d_key)

    def build_maps(self, d_model: int, d_memory: int, bias: bool) -> None:
        """The four maps, of the queries, the keys, the values and back."""
        self.d_query, self.width = self.d_key, d_model
        self.query: nn.Module = IntoScores(d_model, self.n_heads, self.d_key, bias)
        self.key: nn.Module = nn.Linear(d_memory, self.n_kv_heads * self.d_key, bias)
        self.value: nn.Module = nn.Linear(d_memory, self.n_kv_heads * self.d_value, bias)
        self.output: nn.Module = IntoStream(self.n_heads * self.d_value, d_model, bias)

    def rule(self, training: bool) -> Rule:
        """What its weights obey."""
        return Rule(self.score, self.window, self.sinks, self.dropout if training else 0.0)

    def read(
        self,
        memory: Float[Tensor, "batch memory d_memory"],
        at: Int[Tensor, "batch memory"] | None,
        position: Position | None,
    ) -> KeysValues:
        """Keys and values of a memory; `at` are its positions."""
        keys = self.key(memory).unflatten(-1, (self.n_kv_heads, self.d_key)).transpose(1, 2)
        values = self.value(memory).unflatten(-1, (self.n_kv_heads, self.d_value)).transpose(1, 2)
        if self.key_norm is not None:
            keys = self.key_norm(keys)
        if position is not None and at is not None:
            keys = position.rotate(keys, at)
        return KeysValues(self.score.turn_keys(keys), values)

    def forward(
        self,
        x: Float[Tensor, "batch queries d_model"],
        reading: KeysValues,
        view: View,
        record: list[Tensor | None] | None = None,
    ) -> Float[Tensor, "batch queries width"]:
        """Read a memory; with a `record`, its weights (batch, heads, queries, memory) are appended to it."""
        queries = self.query(x).unflatten(-1, (self.n_heads, self.d_query)).transpose(1, 2)
        if self.query_norm is not None:
            queries = self.query_norm(queries)
        if view.position is not None:
            queries = view.position.rotate(queries, view.positions)
        queries, rule = self.score.turn_queries(queries), self.rule(self.training)
        if record is not None:
            heads = eager(queries, *reading, view, rule, record)
        else:
            backend = Sdpa() if view.stepping else self.backend
            heads = backend.attend(queries, *reading, view, rule)
        out: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return out


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
        score: ScoreOption = "scaled_dot",
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
            score=score,
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
        score: ScoreOption = "scaled_dot",
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
            score=score,
        )


@attentions.register("direct")
class DirectAttention(Attention):
    """The memory as it is serves as keys and values, each head's share of it: no maps of its own.

    Source: Bahdanau et al. 2015, arXiv:1409.0473, equations 5 and 6 (score: additive); Luong et al. 2015,
    arXiv:1508.04025, section 3.1 (score: dot, bilinear).
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_memory: int | None = None,
        *,
        window: int | None = None,
        sinks: bool | int = False,
        dropout: float = 0.0,
        score: ScoreOption = "scaled_dot",
    ) -> None:
        width = d_memory or d_model
        refuse_uneven(width, n_heads, n_heads, None)
        super().__init__(
            d_model,
            n_heads,
            d_memory,
            n_heads,
            window=window,
            d_key=width // n_heads,
            d_value=None,
            bias=False,
            qk_norm=False,
            sinks=sinks,
            dropout=dropout,
            score=score,
        )

    def build_maps(self, d_model: int, d_memory: int, bias: bool) -> None:
        refuse_uneven(d_model, self.n_heads, self.n_heads, None)
        self.d_query, self.width, self.d_value = d_model // self.n_heads, d_memory, self.d_key
        self.query = self.key = self.value = self.output = nn.Identity()
