"""Stochastic gradient descent."""

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from zoo.training.optimizers.optimizer import check_momentum, decay_groups, fusible, optimizers, trained


@optimizers.register("sgd")
class Descent(torch.optim.SGD):
    """w <- w - rate * m, where m <- momentum * m + gradient + decay * w.

    Source: Sutskever et al. 2013, "On the importance of initialization and momentum in deep learning", section 2, in
    torch's form: the rate multiplies the momentum, not the gradients that go into it.

    Args:
        nesterov: step by gradient + momentum * m, that is from where the momentum leads.
    """

    def __init__(
        self,
        model: nn.Module,
        learning_rate: float,
        *,
        weight_decay: float = 0.0,
        momentum: float = 0.9,
        nesterov: bool = False,
    ) -> None:
        check_momentum(momentum)
        if nesterov and not momentum:
            raise ValueError("training.optimizer.nesterov: needs a momentum above 0")
        parameters = trained(model)
        groups = decay_groups(model, parameters, weight_decay)
        # torch 2.13 has no rule by which its fused kernel would update shards
        fused = fusible(parameters) and not any(isinstance(parameter, DTensor) for parameter in parameters)
        super().__init__(groups, lr=learning_rate, momentum=momentum, nesterov=nesterov, fused=fused)
        if momentum:
            # torch makes them in the first step, and where its kernel skips that, leaves in them what lay in memory
            for parameter in parameters:
                self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
