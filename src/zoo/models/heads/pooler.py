"""The pooler: from a document's summary to the vector that heads score."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from zoo.blocks.activation import activations
from zoo.blocks.norm import norms
from zoo.devices.precision import has_autocast
from zoo.registry import Choice


@dataclass(frozen=True)
class PoolerSettings:
    """How a document's summary becomes the vector that heads score.

    Args:
        activation: a registered activation.
        norm: applied at the end (ModernBERT); None: none.
        bias: whether the linear layer has a bias.
        mean: whether a document's summary is the mean of its hidden states instead of the encoder's own summary.
        places: whether the pooler is also applied to each position, for heads that score tokens (ModernBERT).
    """

    activation: Annotated[Choice[nn.Module], activations] = activations.parse("tanh")
    norm: Annotated[Choice[nn.Module], norms] | None = None
    bias: bool = True
    mean: bool = False
    places: bool = False


def document_means(
    states: Float[Tensor, "batch length d_model"],
    documents: Int[Tensor, "batch length"],
    places: Int[Tensor, " places"],
    most: int | None = None,
) -> Float[Tensor, "places d_model"]:
    """Return, per flat position (row * length + position), the mean hidden state of its document.

    Each document's mean is computed once, since there may be many more positions than documents.

    Args:
        places: -1 for none: its result is an arbitrary document's mean.
        most: upper bound of the documents per row; None: unknown, so the numbers are read, which waits for the GPU.
    """
    # not up to the largest number: a caller's own document numbers may be large
    numbers = torch.unique(documents) if most is None else torch.arange(1, max(1, most) + 1, device=documents.device)
    # 1/n in bfloat16 is off by up to 0.4 %, and autocast would compute the sum in it: at least float32 inside
    wide = torch.promote_types(states.dtype, torch.float32)
    its = (documents[:, None] == numbers[:, None]).to(wide)  # (batch, documents, length): 1 at a document's positions
    kind, places = states.device.type, places.clamp_min(0)
    with torch.autocast(kind, enabled=False) if has_autocast(kind) else nullcontext():
        means = (its / its.sum(2, keepdim=True).clamp_min(1)) @ states.to(wide)
    which = torch.searchsorted(numbers, documents.flatten().index_select(0, places))
    rows = places // documents.shape[1]
    return means.flatten(0, 1).index_select(0, rows * len(numbers) + which).to(states.dtype)


class Pooler(nn.Module):
    """norm(f(x W + b)) of a document's summary; tanh(x W + b) in BERT.

    Source: Devlin et al. 2019, arXiv:1810.04805; the authors' code. With gelu and a norm: Warner et al. 2024
    (ModernBERT), arXiv:2412.13663; the authors' code.
    """

    def __init__(self, d_model: int, settings: PoolerSettings) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model, settings.bias)
        self.activation = settings.activation.build()
        self.norm = None if settings.norm is None else settings.norm.build(d_model)

    def forward(self, summary: Float[Tensor, "*places d_model"]) -> Float[Tensor, "*places d_model"]:
        pooled: Tensor = self.activation(self.dense(summary))
        return pooled if self.norm is None else self.norm(pooled)
