"""Optimizers that step by the sign of their momentum."""

from typing import Any

import torch
from torch import Tensor, nn

from zoo.training.optimizers.optimizer import check_betas, decay_groups, optimizers, trained


@optimizers.register("lion")
class Lion(torch.optim.Optimizer):
    """w <- w - rate * (sign(b1 m + (1 - b1) gradient) + decay * w); then m <- b2 m + (1 - b2) gradient.

    It keeps one tensor for each weight, AdamW keeps two. Its authors advise a learning rate 3 to 10 times below that of
    AdamW, and a decay as many times above.

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
        super().__init__(decay_groups(model, trained(model), weight_decay), {"lr": learning_rate, "betas": betas})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            self.update(group, [p for p in group["params"] if p.grad is not None])

    def update(self, group: dict[str, Any], weights: list[Tensor]) -> None:
        """One step of the weights of a group that have a gradient."""
        if not weights:
            return
        rate, (b1, b2) = group["lr"], group["betas"]
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        for weight in weights:
            if not self.state[weight]:
                self.state[weight]["momentum"] = torch.zeros_like(weight)
        momenta = [self.state[weight]["momentum"] for weight in weights]
        directions = torch._foreach_mul(momenta, b1)
        torch._foreach_add_(directions, gradients, alpha=1 - b1)
        for direction in directions:  # DTensor has no rule for the sign of many
            direction.sign_()
        torch._foreach_mul_(weights, 1 - rate * group["weight_decay"])
        torch._foreach_add_(weights, directions, alpha=-rate)
        torch._foreach_lerp_(momenta, gradients, 1 - b2)
