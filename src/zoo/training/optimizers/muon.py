"""Optimizers that make the update of a matrix orthogonal."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.devices.precision import fastest_dtype
from zoo.models.embeddings import Embeddings
from zoo.models.heads.head import Head
from zoo.models.heads.pooler import Pooler
from zoo.training.optimizers.optimizer import (
    NeedsWholeMatrices,
    SkippableOptimizer,
    check_betas,
    check_momentum,
    decay_groups,
    is_fusible,
    logit_parameters,
    optimizers,
    step_unless,
    trained_parameters,
)

# modules without hidden matrices: embeddings, heads, poolers, and recurrent cells, whose gates share one matrix
NOT_HIDDEN = (Embeddings, nn.Embedding, Head, Pooler, nn.RNNBase)
# coefficients and number of Newton-Schulz steps, and the least norm that is divided by, as in torch.optim.Muon
QUINTIC, STEPS, TINY = (3.4445, -4.7750, 2.0315), 5, 1e-7


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the trained matrices of hidden layers, which map hidden states to hidden states."""
    outside = {id(p) for module in model.modules() if isinstance(module, NOT_HIDDEN) for p in module.parameters()}
    outside |= {id(p) for p in logit_parameters(model)}
    return [p for p in trained_parameters(model) if p.dim() == 2 and min(p.shape) > 1 and id(p) not in outside]


class OrthogonalMomentum(SkippableOptimizer):
    """w <- w - rate * (0.2 sqrt(max(rows, columns)) orthogonal(m) + decay * w), where m averages gradients.

    The results are those of torch.optim.Muon, with which the host would have to wait for the device to know whether a
    step must be skipped.
    """

    def __init__(self, groups: list[dict[str, Any]], rate: float, momentum: float, nesterov: bool) -> None:
        super().__init__(groups, {"lr": rate, "momentum": momentum, "nesterov": nesterov})

    def initial_state(self, weight: Tensor) -> dict[str, Tensor]:
        return {"momentum_buffer": torch.zeros_like(weight)}

    def compute_step(
        self, weights: Tensor, gradients: Tensor, states: Mapping[str, Tensor], group: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        momentum, rate = group["momentum"], group["lr"]
        mean = states["momentum_buffer"].lerp(gradients, 1 - momentum)
        updates = orthogonalize(gradients.lerp(mean, momentum) if group["nesterov"] else mean)
        scale = 0.2 * math.sqrt(max(weights.shape[1:]))
        later = weights.mul(1 - rate * group["weight_decay"]).add_(updates, alpha=-(rate * scale))
        return later, {"momentum_buffer": mean}


def orthogonalize(matrices: Float[Tensor, "count rows columns"]) -> Float[Tensor, "count rows columns"]:
    """Return about U V^T of each matrix U S V^T: its singular values become 0.7 to 1.2.

    Computed in bfloat16, as in torch's Muon, but in float32 where bfloat16 is emulated: on a CPU with AVX2 only, a
    matrix of 512 x 2048 takes half a second in float32, and half a minute in bfloat16.

    Source: Jordan et al. 2024, kellerjordan.github.io/posts/muon: five Newton-Schulz steps.
    """
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.to(fastest_dtype(matrices.device), copy=True)
    x = x.mT if tall else x
    x.div_(x.norm(dim=(1, 2), keepdim=True).clamp(min=TINY))
    a, b, c = QUINTIC
    for _ in range(STEPS):
        squares = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(squares, squares, squares, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


@optimizers.register("muon")
class HiddenMuon(NeedsWholeMatrices):
    """Muon for the matrices of hidden layers (orthogonalized momentum), AdamW for all other parameters.

    AdamW updates embeddings, heads, the pooler, norms, biases, scalars, convolutions and the gates of recurrent cells.
    Muon's updates are scaled to the size of AdamW's (0.2 sqrt(max(rows, columns)), Liu et al.), so both share one
    learning rate and one weight decay, and values that are good for AdamW are a good start.

    Source: Jordan et al. 2024, kellerjordan.github.io/posts/muon; Liu et al. 2025, arXiv:2502.16982, equation 4.

    Args:
        momentum, nesterov: of Muon.
        betas, eps: of AdamW.
        fused: let torch's fused kernel do AdamW's update, where the device has it.
    """

    _step_supports_amp_scaling = True  # as in SkippableOptimizer: `step` hands `found_inf` on to both parts
    found_inf: Tensor | None = None

    def __init__(
        self,
        model: nn.Module,
        learning_rate: float,
        *,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        fused: bool = True,
    ) -> None:
        check_betas(betas, eps)
        check_momentum(momentum)
        matrices = hidden_matrices(model)
        inside = {id(p) for p in matrices}
        others = [p for p in trained_parameters(model) if id(p) not in inside]
        self.parts: list[torch.optim.Optimizer] = []
        if matrices:
            groups = decay_groups(model, matrices, weight_decay)
            self.parts.append(OrthogonalMomentum(groups, learning_rate, momentum, nesterov))
        if others:
            groups = decay_groups(model, others, weight_decay)
            kernel = fused and is_fusible(others)
            self.parts.append(torch.optim.AdamW(groups, learning_rate, betas, eps, fused=kernel))
        # one optimizer to all others: its groups are those of both parts, so that schedules and checkpoints see them
        parts = enumerate(self.parts)
        super().__init__([{**group, "part": number} for number, part in parts for group in part.param_groups], {})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for number, part in enumerate(self.parts):
            # set in each step: load_state_dict replaces groups and state
            part.param_groups = [group for group in self.param_groups if group["part"] == number]
            part.state = self.state
            if self.found_inf is None:
                part.step()
            else:
                step_unless(self.found_inf, part)
