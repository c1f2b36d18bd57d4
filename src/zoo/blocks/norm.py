"""Slot `norm`: normalization of hidden states. The model supplies d_model."""

from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.registry import Choice, Slot, refuse_below

norms: Slot[nn.Module] = Slot("norm")
NormOption = Annotated[str | Choice[nn.Module], norms]


@norms.register("layernorm")
class LayerNorm(nn.Module):
    """Shift each vector to mean 0, scale it to variance 1, then apply a learned gain and bias.

    Source: Ba et al. 2016, arXiv:1607.06450, equation 4. ModernBERT leaves the bias out.

    Args:
        eps: added to the variance.
        bias: whether there is a learned bias.
    """

    def __init__(self, d_model: int, *, eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        refuse_below(0, eps=eps)
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model)) if bias else None
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        # torch's kernel keeps mean and variance in float32 whatever the input's dtype; weights follow the input
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.layer_norm(x, self.weight.shape, self.weight.to(x.dtype), bias, self.eps)


@norms.register("rmsnorm")
class RMSNorm(nn.Module):
    """Divide each vector by its root mean square and apply a learned gain.

    Source: Zhang & Sennrich 2019, arXiv:1910.07467, equation 4. The gain is applied after the cast back to the input's
    dtype, as in Llama.

    Args:
        eps: added to the mean square.
    """

    def __init__(self, d_model: int, *, eps: float = 1e-6) -> None:
        super().__init__()
        refuse_below(0, eps=eps)
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        # torch computes the mean square in at least float32, and GPUs fuse the call into one kernel
        return F.rms_norm(x, x.shape[-1:], None, self.eps) * self.weight.to(x.dtype)


@norms.register("scalenorm")
class ScaleNorm(nn.Module):
    """Divide each vector by its length and multiply by one learned scale.

    Source: Nguyen & Salazar 2019, arXiv:1910.05895, "ScaleNorm".

    Args:
        eps: lower bound of the length that is divided by.
    """

    def __init__(self, d_model: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        refuse_below(0, eps=eps)
        self.scale = nn.Parameter(torch.full((1,), d_model**0.5))  # one axis: FSDP2 cannot shard scalars
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        scaled: Tensor = wide * (self.scale / wide.norm(dim=-1, keepdim=True).clamp_min(self.eps))
        return scaled.to(x.dtype)
