"""The matrix of token vectors in one training step of a model with a tied head."""

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.blocks.projections import is_wrapped
from zoo.devices.compiling import is_transformed
from zoo.devices.precision import dtype_of_products
from zoo.models.heads.cross_entropy import are_few
from zoo.models.heads.head import EmbeddingMatrix, Head

LookedUp = list[tuple[Int[Tensor, "*places"], Float[Tensor, "*places width"]]]


class TokenTable:
    """The token matrix, cast to the dtype of products before the layers run, to save memory in the backward pass.

    Autograd visits the cast last, because it was computed first. So the gradient of a tied head waits in the narrower
    dtype until the layers' activations are freed; then the gradients of the looked-up tokens are added to its rows.
    With plain autograd it would become float32 while all activations exist, and the lookup's gradient would be a second
    full matrix, mostly zeros: 94 MB each for BERT-base, 154 MB for GPT-2.

    Args:
        weight: the parameter.
        dtype: of products.
    """

    def __init__(self, weight: EmbeddingMatrix, dtype: torch.dtype) -> None:
        self.weight = weight
        self.looked_up: LookedUp = []
        self.narrow: EmbeddingMatrix = Cast.apply(weight, dtype, self.looked_up)  # type: ignore[no-untyped-call]

    @staticmethod
    def early(weight: EmbeddingMatrix | None, heads: Iterable[Head]) -> "TokenTable | None":
        """Cast a parameter early; None where that saves nothing, or on a GPU, where the gain was not measured."""
        changed = torch.compiler.is_compiling() or is_transformed()  # neither allows the list that `Cast` keeps
        if weight is None or changed or not any(head.ends_in_table for head in heads):
            return None
        dtype, trained = dtype_of_products(weight), torch.is_grad_enabled() and weight.requires_grad
        narrows = dtype == torch.bfloat16 and weight.dtype != torch.bfloat16 and weight.device.type == "cpu"
        return TokenTable(weight, dtype) if trained and narrows and not are_few(len(weight)) else None

    def holds(self, tokens: nn.Embedding) -> bool:
        """Whether a module only looks up rows of this matrix: `look_up` ignores hooks and options such as max_norm."""
        plain = type(tokens) is nn.Embedding and not is_wrapped(tokens)
        options = tokens.padding_idx, tokens.max_norm, tokens.scale_grad_by_freq or None, tokens.sparse or None
        return plain and tokens.weight is self.weight and options == (None,) * 4

    def look_up(self, tokens: Int[Tensor, "*places"]) -> Float[Tensor, "*places width"]:
        """Return the vectors of tokens, in the dtype of the parameter."""
        found: Tensor = LookUp.apply(self.narrow, self.weight, tokens, self.looked_up)  # type: ignore[no-untyped-call]
        return found


class Cast(torch.autograd.Function):
    """The matrix in a narrower dtype; its gradient adds up those of the cast matrix and of all lookups."""

    @staticmethod
    def forward(ctx: Any, weight: EmbeddingMatrix, dtype: torch.dtype, looked_up: LookedUp) -> EmbeddingMatrix:
        ctx.like, ctx.looked_up = weight.detach(), looked_up
        ctx.set_materialize_grads(False)
        return weight.to(dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None) -> tuple[Tensor, None, None]:
        total = torch.zeros_like(ctx.like) if gradient is None else gradient.to(ctx.like.dtype)
        for tokens, rows in ctx.looked_up:
            # one row per distinct token, since a full (vocab_size, width) gradient would be mostly zeros
            different, numbers = tokens.long().unique(return_inverse=True)  # lookups also take int32
            sums = torch.ops.aten.embedding_dense_backward(rows, numbers, len(different), -1, False)
            total.index_copy_(0, different, total[different] + sums)
        ctx.looked_up.clear()
        return total, None, None


class LookUp(torch.autograd.Function):
    """Rows of the parameter. To autograd they depend on `narrow`, so that `Cast.backward` runs after all lookups'."""

    @staticmethod
    def forward(
        ctx: Any, narrow: EmbeddingMatrix, weight: EmbeddingMatrix, tokens: Tensor, looked_up: LookedUp
    ) -> Tensor:
        ctx.looked_up = looked_up
        ctx.save_for_backward(tokens)
        return F.embedding(tokens, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None, None]:
        (tokens,) = ctx.saved_tensors
        ctx.looked_up.append((tokens, gradient))
        return None, None, None, None
