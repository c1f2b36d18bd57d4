"""Optimizers that step by the sign of their momentum."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from zoo.training.optimizers.optimizer import (
    SkippableOptimizer,
    check_betas,
    decay_groups,
    optimizers,
    trained_parameters,
)


@optimizers.register("lion")
class Lion(SkippableOptimizer):
    """w <- w - rate * (sign(b1 m + (1 - b1) gradient) + decay * w); then m <- b2 m + (1 - b2) gradient.

    It keeps one tensor per weight, AdamW keeps two. Its authors advise a learning rate 3 to 10 times below AdamW's, and
    a weight decay as many times above.

    Source: Chen et al. 2023, arXiv:2302.06675, algorithm 2.
    """

    def __init__(
        self,
        model: nn.Module,
        learning_rate: float,
        *,
        weight_decay: float = 0.1,
        betas: tuple[float, float] = (0.9, 0.99),
    ) -> None:
        check_betas(betas)
        super().__init__(
            decay_groups(model, trained_parameters(model), weight_decay), {"lr": learning_rate, "betas": betas}
        )

    def initial_state(self, weight: Tensor) -> dict[str, Tensor]:
        return {"momentum": torch.zeros_like(weight)}

    def compute_step(
        self, weights: Tensor, gradients: Tensor, states: Mapping[str, Tensor], group: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        momentum, rate, (b1, b2) = states["momentum"], group["lr"], group["betas"]
        direction = momentum.mul(b1).add_(gradients, alpha=1 - b1).sign_()
        later = weights.mul(1 - rate * group["weight_decay"]).add_(direction, alpha=-rate)
        return later, {"momentum": momentum.lerp(gradients, 1 - b2)}
