"""Stochastic gradient descent."""

import torch
from torch import nn
from torch.optim.sgd import sgd

from zoo.training.devices.shards import local_shard
from zoo.training.optimizers.optimizer import check_momentum, decay_groups, is_fusible, optimizers, trained_parameters


@optimizers.register("sgd")
class Descent(torch.optim.SGD):
    """w <- w - rate * m, where m <- momentum * m + gradient + decay * w.

    Source: Sutskever et al. 2013, "On the importance of initialization and momentum in deep learning", section 2, in
    torch's form: the rate multiplies the momentum, not the gradients that go into it.

    Args:
        fused: update all weights in torch's fused kernel, where the device has it.
        nesterov: step by gradient + decay * w + momentum * m instead of m.
    """

    def __init__(
        self,
        model: nn.Module,
        learning_rate: float,
        *,
        weight_decay: float = 0.0,
        momentum: float = 0.9,
        nesterov: bool = False,
        fused: bool = True,
    ) -> None:
        check_momentum(momentum)
        if nesterov and not momentum:
            raise ValueError("training.optimizer.nesterov: needs a momentum above 0")
        parameters = trained_parameters(model)
        groups, kernel = decay_groups(model, parameters, weight_decay), fused and is_fusible(parameters)
        super().__init__(groups, lr=learning_rate, momentum=momentum, nesterov=nesterov, fused=kernel)
        if momentum:
            # torch allocates them in the first step, and leaves them uninitialized if its kernel skips that step
            for parameter in parameters:
                self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Step as torch.optim.SGD, on the local shard of each weight: torch's fused kernel takes no DTensor."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            momenta = [self.state[weight]["momentum_buffer"] if group["momentum"] else None for weight in weights]
            sgd(
                [local_shard(weight) for weight in weights],
                [local_shard(weight.grad) for weight in weights],
                [None if momentum is None else local_shard(momentum) for momentum in momenta],
                fused=group["fused"],
                grad_scale=getattr(self, "grad_scale", None),
                found_inf=getattr(self, "found_inf", None),
                **{key: group[key] for key in ("weight_decay", "momentum", "lr", "dampening", "nesterov", "maximize")},
            )
