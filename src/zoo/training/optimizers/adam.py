"""Adam and AdamW: every weight moves by about the learning rate, whatever the size of its gradient."""

import torch
from torch import nn

from zoo.training.optimizers.optimizer import check_betas, decay_groups, is_fusible, optimizers, trained_parameters


@optimizers.register("adamw")
class AdamW(torch.optim.AdamW):
    """Adam with decoupled weight decay: w <- w - rate * (m / (sqrt(v) + eps) + decay * w).

    As in every optimizer that has `weight_decay`, matrices decay, embeddings included. Vectors (biases, scales of
    norms), attention sinks and tables of relative positions do not.

    Source: Loshchilov & Hutter 2019, arXiv:1711.05101, algorithm 2.

    Args:
        fused: update all weights in torch's fused kernel, where the device has it.
    """

    def __init__(
        self,
        model: nn.Module,
        learning_rate: float,
        *,
        weight_decay: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        fused: bool = True,
    ) -> None:
        check_betas(betas, eps)
        parameters = trained_parameters(model)
        groups = decay_groups(model, parameters, weight_decay)
        super().__init__(groups, lr=learning_rate, betas=betas, eps=eps, fused=fused and is_fusible(parameters))


@optimizers.register("adam")
class Adam(torch.optim.Adam):
    """w <- w - rate * m / (sqrt(v) + eps), without weight decay.

    Source: Kingma & Ba 2015, arXiv:1412.6980, algorithm 1.

    Args:
        fused: update all weights in torch's fused kernel, where the device has it.
    """

    def __init__(
        self,
        model: nn.Module,
        learning_rate: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        fused: bool = True,
    ) -> None:
        check_betas(betas, eps)
        parameters = trained_parameters(model)
        super().__init__(parameters, lr=learning_rate, betas=betas, eps=eps, fused=fused and is_fusible(parameters))
