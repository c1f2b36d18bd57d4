"""Slot `optimizer`: how gradients change weights. Supplied: the model, and a learning rate that each step sets anew."""

from collections.abc import Iterable, Iterator

import torch
from torch import nn

from zoo.blocks.attention import Attention
from zoo.blocks.position import Position
from zoo.registry import Slot

optimizers: Slot[torch.optim.Optimizer] = Slot("optimizer")
FUSED = ("cpu", "cuda")


def trained(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that are trained, in the model's order; tied ones once."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def added_to_scores(model: nn.Module) -> Iterator[nn.Parameter]:
    """Parameters that are added to attention's scores, so that they are logits rather than a map."""
    for module in model.modules():
        if isinstance(module, Attention) and module.sinks is not None:
            yield module.sinks
        elif isinstance(module, Position) and module.biases:
            yield from module.parameters()


def fusible(parameters: Iterable[nn.Parameter]) -> bool:
    """Whether torch has one kernel for the whole update of these parameters."""
    return all(p.is_floating_point() and p.device.type in FUSED for p in parameters)


def check_betas(betas: tuple[float, float], eps: float) -> None:
    """Refuse what Adam cannot work with.

    Raises:
        ValueError: a share of memory outside 0 to 1, or a negative eps.
    """
    if not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"training.betas: each must be at least 0 and below 1, got {list(betas)}")
    if eps < 0:
        raise ValueError(f"training.eps: must be at least 0, got {eps}")


@optimizers.register("adamw")
class AdamW(torch.optim.AdamW):
    """Adam with decoupled weight decay: w <- w - rate * (m / (sqrt(v) + eps) + decay * w).

    Matrices decay, embeddings among them; vectors (biases and the scales of norms) do not, as in BERT and GPT-2. Nor do
    attention's sinks and tables of relative positions, whatever their shape: they are logits, of which only differences
    count, not maps (transformers' Trainer leaves T5's `relative_attention_bias` out, too).

    Source: Loshchilov & Hutter 2019, arXiv:1711.05101, algorithm 2.
    """

    def __init__(
        self,
        model: nn.Module,
        learning_rate: float,
        *,
        weight_decay: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        check_betas(betas, eps)
        if weight_decay < 0:
            raise ValueError(f"training.weight_decay: must be at least 0, got {weight_decay}")
        parameters = trained(model)
        # by id: `in` on a list of tensors would compare their values
        logits = {id(parameter) for parameter in added_to_scores(model)}
        decayed = {id(p) for p in parameters if p.dim() >= 2 and id(p) not in logits}
        groups = [
            {"params": [p for p in parameters if id(p) in decayed], "weight_decay": weight_decay},
            {"params": [p for p in parameters if id(p) not in decayed], "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        super().__init__(groups, lr=learning_rate, betas=betas, eps=eps, fused=fusible(parameters))


@optimizers.register("adam")
class Adam(torch.optim.Adam):
    """w <- w - rate * m / (sqrt(v) + eps), without weight decay.

    Source: Kingma & Ba 2015, arXiv:1412.6980, algorithm 1.
    """

    def __init__(
        self,
        model: nn.Module,
        learning_rate: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        check_betas(betas, eps)
        parameters = trained(model)
        super().__init__(parameters, lr=learning_rate, betas=betas, eps=eps, fused=fusible(parameters))
