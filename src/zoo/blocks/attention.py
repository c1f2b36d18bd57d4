"""Slot `attention`: how queries attend to a memory. The model supplies d_model, n_heads and d_memory."""

from abc import ABC
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.blocks.backends.backend import Backend, Rule
from zoo.blocks.backends.eager import EAGER
from zoo.blocks.backends.sdpa import SDPA
from zoo.blocks.dropout import UsesDropout
from zoo.blocks.norm import NormOption, norms
from zoo.blocks.projections import UsesFastLayers, project
from zoo.blocks.residual import IntoScores, IntoStream
from zoo.blocks.rows.cache import Cache, KeysValues
from zoo.blocks.rows.view import View
from zoo.blocks.score import ScoreOption, scores
from zoo.registry import Slot, refuse_below


class HeadShape(NamedTuple):
    """Number and width of the heads of queries, keys and values."""

    n_heads: int
    n_kv_heads: int
    d_query: int
    d_key: int
    d_value: int


def refuse_uneven(d_model: int, n_heads: int, n_kv_heads: int, d_key: int | None) -> None:
    """Check that n_heads divides d_model (unless d_key is given), and n_kv_heads divides n_heads.

    Raises:
        ValueError: one of them does not.
    """
    if d_key is None and d_model % n_heads:
        fitting = ", ".join(str(n) for n in range(1, min(2 * n_heads, d_model) + 1) if d_model % n == 0)
        problem = f"d_model ({d_model}) must be a multiple of n_heads ({n_heads}), or set d_key"
        raise ValueError(f"{problem}; n_heads that fit: {fitting}")
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ValueError(f"n_heads ({n_heads}) must be a multiple of n_kv_heads ({n_kv_heads})")


def head_widths(d_model: int, n_heads: int, d_key: int | None, d_value: int | None) -> tuple[int, int]:
    """Return d_key and d_value; None means d_model / n_heads (for d_value: d_key if that is not an integer)."""
    even = None if d_model % n_heads else d_model // n_heads
    d_key = d_key or d_model // n_heads
    return d_key, d_value or even or d_key


def in_heads(x: Float[Tensor, "batch length _"], n_heads: int) -> Float[Tensor, "batch heads length _"]:
    """Split vectors into heads; works for empty batches too, where `view` cannot infer a size."""
    rows, length, width = x.shape
    return x.view(rows, length, n_heads, width // n_heads).transpose(1, 2)


class Attention(nn.Module, UsesDropout, UsesFastLayers, ABC):
    """softmax(score(Q, K)) V per head, concatenated; a variant defines the maps to Q, K and V, and the output map.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.

    Args:
        shape: number and width of the heads.
        width: of the vectors that it returns.
        crosses: whether it is cross-attention, which reads the memory of another part instead of its own input.
        window: a query sees keys at distances below it (tokens); None: all.
        sinks: number of learned logits per head that take part in the softmax and have no value (Xiao et al. 2023,
            arXiv:2309.17453, as in gpt-oss); true is 1.
        dropout: fraction of the attention weights dropped in training.
        score: a registered score; fused kernels support only those that are inner products.

    Attributes:
        backend: computes attention over whole rows.
    """

    def __init__(
        self,
        shape: HeadShape,
        width: int,
        crosses: bool,
        *,
        window: int | None = None,
        sinks: bool | int = False,
        dropout: float = 0.0,
        score: ScoreOption = "scaled_dot",
    ) -> None:
        super().__init__()
        refuse_below(1, window=window)  # a query sees at least itself
        refuse_below(0, sinks=int(sinks))
        if not 0 <= dropout < 1:
            raise ValueError(f"attention dropout ({dropout}) must be at least 0 and below 1")
        self.n_heads, self.n_kv_heads, self.d_query, self.d_key, self.d_value = shape
        self.width, self.crosses, self.window, self.dropout = width, crosses, window, dropout
        self.backend: Backend = SDPA
        # a variant replaces some of these; registered here, so that the parameters' order is the same in all variants
        self.query: nn.Module = nn.Identity()
        self.key: nn.Module = nn.Identity()
        self.value: nn.Module = nn.Identity()
        self.output: nn.Module = nn.Identity()
        self.query_norm: nn.Module = nn.Identity()
        self.key_norm: nn.Module = nn.Identity()
        self.sinks = nn.Parameter(torch.zeros(self.n_heads, int(sinks))) if sinks else None
        self.score = scores.build(score, self.d_query, self.d_key)

    def rule(self, training: bool) -> Rule:
        """Collect the settings of this layer that a backend needs."""
        return Rule(self.score, self.window, self.sinks, self.dropout if training else 0.0, self.byte_dropout)

    def read(self, memory: Float[Tensor, "batch memory d_memory"], view: View | None = None) -> KeysValues:
        """Project a memory to keys and values.

        Args:
            view: of the memory's own tokens, whose positions rotate the keys; None: keys are not rotated.
        """
        keys, values = project(memory, (self.key, self.value), self.fast_layers)
        return self.finish_keys_values(keys, values, view)

    def finish_keys_values(
        self, keys: Float[Tensor, "batch memory _"], values: Float[Tensor, "batch memory _"], view: View | None
    ) -> KeysValues:
        """Split projected keys and values into heads; normalize, rotate and transform the keys."""
        keys = self.normed(self.key_norm, in_heads(keys, self.n_kv_heads))
        values = in_heads(values, self.n_kv_heads)
        keys = keys if view is None else view.rotate(keys)
        return KeysValues(self.score.transform_keys(keys), values)

    @staticmethod
    def normed(norm: nn.Module, heads: Tensor) -> Tensor:
        """Normalize heads and keep their dtype, which `prepare` counts on: a GPU's autocast runs norms in float32."""
        return norm(heads).to(heads.dtype)

    def project_queries(self, x: Float[Tensor, "batch queries d_model"], view: View) -> Tensor:
        """Compute queries (batch, heads, queries, width), ready for the score's `compare`."""
        return self.finish_queries(self.query(x), view)

    def finish_queries(self, queries: Float[Tensor, "batch queries _"], view: View) -> Tensor:
        """Split projected queries into heads; normalize, rotate and transform them (batch, heads, queries, width)."""
        queries = self.normed(self.query_norm, in_heads(queries, self.n_heads))
        return self.score.transform_queries(view.rotate(queries))

    def forward(
        self, x: Float[Tensor, "batch queries d_model"], memory: KeysValues, view: View
    ) -> Float[Tensor, "batch queries width"]:
        """Attend from whole rows to a memory (cross-attention)."""
        return self.attend(self.project_queries(x, view), memory, view)

    def attend_itself(
        self, x: Float[Tensor, "batch length d_model"], view: View
    ) -> Float[Tensor, "batch length width"]:
        """Attend from whole rows to themselves (self-attention)."""
        # do not reorder: the order decides how autograd sums the gradients of x, and with it their last bits
        keys, values, queries = project(x, (self.key, self.value, self.query), self.fast_layers)
        return self.attend(self.finish_queries(queries, view), self.finish_keys_values(keys, values, view), view)

    def attend(self, queries: Tensor, memory: KeysValues, view: View) -> Float[Tensor, "batch queries width"]:
        """Attend with the queries of whole rows to a memory, and apply the output map."""
        heads = self.backend_for(view).attend(queries, *memory, view, self.rule(self.training))
        return self.output(heads.transpose(1, 2).flatten(2))

    def prepare(self, view: View, dtype: torch.dtype) -> None:
        """Compute what layers share of a view, before the first layer runs; `dtype` is that of queries and keys."""
        view.rotations(dtype)
        self.backend_for(view).prepare(view, self.rule(self.training), dtype)

    def backend_for(self, view: View) -> Backend:
        """The backend for a view: `eager` if weights are recorded, since fused kernels do not return them."""
        return self.backend if view.recorder is None else EAGER

    def step(
        self, x: Float[Tensor, "batch queries d_model"], memory: KeysValues, view: View
    ) -> Float[Tensor, "batch queries width"]:
        """Attend from new tokens to the tokens so far, always by sdpa: other backends' kernels need whole rows."""
        backend: Backend = SDPA
        if view.recorder is not None:
            backend, memory = EAGER, memory.first(view.visibility.n_keys)
        queries = self.project_queries(x, view)
        wide = queries.to(torch.promote_types(queries.dtype, memory.keys.dtype))
        heads = backend.attend(wide, *memory, view, self.rule(self.training))
        return self.output(heads.to(queries.dtype).transpose(1, 2).flatten(2))

    def to_fast_layout(self, memory: KeysValues) -> KeysValues:
        """Convert a memory to the dtype and layout that `step` reads fastest."""
        rule = self.rule(False)
        if SDPA.needs_whole_tensors(memory.keys, rule):  # matrix products read whole tensors
            return KeysValues(memory.keys.contiguous(), memory.values.contiguous())
        return memory.to(SDPA.cache_dtype(memory.keys, rule))

    def cache(self, new: KeysValues, room: int) -> Cache:
        """Create an empty cache for keys and values of this shape, with `room` slots per row."""
        rule = self.rule(False)
        return Cache.of(new, room, SDPA.cache_dtype(new.keys, rule), SDPA.needs_whole_tensors(new.keys, rule))


attentions: Slot[Attention] = Slot("attention")


class ProjectedAttention(Attention, ABC):
    """Attention with linear projections to queries, keys and values, and an output projection.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2.

    Args:
        d_memory: width of the memory in cross-attention; None: self-attention.
        n_kv_heads: heads of keys and values, each shared by n_heads / n_kv_heads heads of queries; None: n_heads.
        d_key, d_value: width of a head; None: d_model / n_heads (d_value: d_key if that is not an integer).
        bias: whether the four projections have biases.
        qk_norm: normalize queries and keys of each head (Dehghani et al. 2023, arXiv:2302.05442): a registered norm,
            or true for rmsnorm.
        shared: options of every attention variant.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_memory: int | None = None,
        n_kv_heads: int | None = None,
        *,
        d_key: int | None = None,
        d_value: int | None = None,
        bias: bool = True,
        qk_norm: bool | NormOption = False,
        **shared: Any,
    ) -> None:
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        refuse_uneven(d_model, n_heads, n_kv_heads, d_key)
        refuse_below(1, d_key=d_key, d_value=d_value)
        d_key, d_value = head_widths(d_model, n_heads, d_key, d_value)
        shape = HeadShape(n_heads, n_kv_heads, d_key, d_key, d_value)
        super().__init__(shape, d_model, d_memory is not None, **shared)
        self.query = IntoScores(d_model, n_heads, d_key, bias)
        self.key = nn.Linear(d_memory or d_model, n_kv_heads * d_key, bias)
        self.value = nn.Linear(d_memory or d_model, n_kv_heads * d_value, bias)
        self.output = IntoStream(n_heads * d_value, d_model, bias)
        if qk_norm:
            kind = "rmsnorm" if qk_norm is True else qk_norm
            self.query_norm, self.key_norm = norms.build(kind, d_key), norms.build(kind, d_key)


@attentions.register("full")
class FullAttention(ProjectedAttention):
    """Multi-head attention: every head of queries has its own keys and values.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2.
    """


@attentions.register("grouped")
class GroupedAttention(ProjectedAttention):
    """Grouped-query attention: groups of heads share keys and values; one group is multi-query attention.

    Source: Ainslie et al. 2023, arXiv:2305.13245; Shazeer 2019, arXiv:1911.02150 (one group).

    Args:
        n_kv_heads: number of groups; must divide n_heads.
        shared: options of `full`.
    """

    def __init__(
        self, d_model: int, n_heads: int, d_memory: int | None = None, *, n_kv_heads: int, **shared: Any
    ) -> None:
        super().__init__(d_model, n_heads, d_memory, n_kv_heads, **shared)


@attentions.register("direct")
class DirectAttention(Attention):
    """Attention without projections: the memory itself, split into heads, serves as keys and values.

    Source: Bahdanau et al. 2015, arXiv:1409.0473, equations 5 and 6 (score: additive); Luong et al. 2015,
    arXiv:1508.04025, section 3.1 (score: dot, bilinear).

    Args:
        shared: options of every attention variant.
    """

    def __init__(self, d_model: int, n_heads: int, d_memory: int | None = None, **shared: Any) -> None:
        width = d_memory or d_model
        for divided in (width, d_model):
            refuse_uneven(divided, n_heads, n_heads, None)
        shape = HeadShape(n_heads, n_heads, d_model // n_heads, width // n_heads, width // n_heads)
        super().__init__(shape, width, d_memory is not None, **shared)
