"""Optimizers that keep means over the rows and the columns of a matrix instead of a number per weight."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from zoo.training.optimizers.optimizer import (
    NeedsWholeMatrices,
    SkippableOptimizer,
    decay_groups,
    optimizers,
    trained_parameters,
)


@optimizers.register("adafactor")
class FactoredMoments(SkippableOptimizer, NeedsWholeMatrices):
    """Adam with second moments factored into a row and a column, and steps relative to the size of the weights.

    w <- (1 - rate * decay) w - a * u / max(1, RMS(u) / threshold), where u is the gradient divided by the root of its
    second moment, and a = min(rate, 1 / sqrt(updates)) * max(least_scale, RMS(w)). So its learning rates are larger
    than Adam's: 1e-3 to 1e-2. The results are those of torch.optim.Adafactor, which reads two numbers per weight back
    from the device and so stalls it; here nothing is read.

    Source: Shazeer & Stern 2018, arXiv:1804.04235, algorithm 6.

    Args:
        memory: squares of new gradients enter the second moments with weight updates ** -memory.
        least_scale: lower bound of RMS(w) in the step, so that weights that start at 0 move.
        threshold: the largest RMS of u; a larger u is scaled down to it.
    """

    def __init__(
        self,
        model: nn.Module,
        learning_rate: float,
        *,
        weight_decay: float = 0.0,
        memory: float = 0.8,
        least_scale: float = 1e-3,
        threshold: float = 1.0,
    ) -> None:
        for name, value, least in (("memory", memory, 0), ("least_scale", least_scale, 0), ("threshold", threshold, 1)):
            if value < least:
                raise ValueError(f"training.optimizer.{name}: must be at least {least}, got {value}")
        settings = {"lr": learning_rate, "memory": memory, "least_scale": least_scale, "threshold": threshold}
        super().__init__(decay_groups(model, trained_parameters(model), weight_decay), settings)

    def initial_state(self, weight: Tensor) -> dict[str, Tensor]:
        # not named `step`, which torch would leave on the CPU when a checkpoint is loaded
        updates = {"updates": weight.new_zeros(())}
        if weight.dim() < 2:
            return updates | {"moments": torch.zeros_like(weight)}
        return updates | {
            "rows": torch.zeros_like(weight[..., :1]),
            "columns": torch.zeros_like(weight[..., :1, :]),
        }

    def compute_step(
        self, weights: Tensor, gradients: Tensor, states: Mapping[str, Tensor], group: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        updates, tiny = states["updates"] + 1, torch.finfo(weights.dtype).eps  # tiny: torch's default for eps1
        counts = updates.view(-1, *[1] * (weights.dim() - 1))  # (stack, 1, …), to broadcast over each weight
        new_moments = update_moments(states, gradients, counts ** -group["memory"])
        rates = (counts**-0.5).clamp_max(group["lr"]) * rms(weights).clamp_min(group["least_scale"])
        steps = moments(new_moments, tiny).clamp_min(tiny**2).rsqrt_().mul_(gradients)
        steps.mul_(rates / (rms(steps) / group["threshold"]).clamp_min(1))
        return weights.mul(1 - group["lr"] * group["weight_decay"]).sub_(steps), {"updates": updates, **new_moments}


def update_moments(states: Mapping[str, Tensor], gradients: Tensor, new: Tensor) -> dict[str, Tensor]:
    """Return the second moments (or their row and column means) after new gradients.

    Args:
        new: the weight of the new gradients' squares, 0 to 1, one per stacked weight, shaped to broadcast.
    """
    if "moments" in states:
        return {"moments": states["moments"].lerp(gradients.square(), new)}
    sides = {"rows": (-1,), "columns": (-2,)}
    return {name: states[name].lerp(rms(gradients, axes).square_(), new) for name, axes in sides.items()}


def moments(states: Mapping[str, Tensor], tiny: float) -> Tensor:
    """Return the second moment of each gradient: rows x columns / mean(rows) where it is factored (algorithm 4)."""
    if "moments" in states:
        return states["moments"]
    return (states["rows"] @ states["columns"]).div_(states["rows"].mean(-2, keepdim=True).clamp_min_(tiny))


def rms(x: Tensor, axes: tuple[int, ...] | None = None) -> Tensor:
    """Return sqrt(mean(x^2)) along axes, which are kept; None: along all but the first.

    Unlike x.square(), this stores no tensor of squares.
    """
    axes = tuple(range(1, x.dim())) if axes is None else axes
    if not axes:  # stacked scalars
        return x.abs()
    norms: Tensor = torch.linalg.vector_norm(x, dim=axes, keepdim=True)
    return norms / math.sqrt(math.prod(x.shape[axis] for axis in axes))
