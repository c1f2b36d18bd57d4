"""Averages of weights, along the run or over its last checkpoints, and a context that swaps them into a model."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from zoo.training.devices.shards import local_shard, shard_like

Weights = dict[str, Tensor]


class MovingAverage:
    """average <- d * average + (1 - d) * weights after the n-th update, with d = min(decay, (1 + n) / (10 + n)).

    The smaller decay of the first updates keeps the initial weights from dominating a short run. torch's AveragedModel
    would hold a copy of the whole module; these weights can be sharded, saved and exchanged by their names.

    Source: Polyak & Juditsky 1992; the growing decay as in tensorflow's ExponentialMovingAverage(num_updates).
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, updates: int, bad: Tensor) -> None:
        """Move the average towards the weights after `updates` updates, unless `bad` is 1: the last one was skipped."""
        decay = min(self.decay, (1 + updates) / (10 + updates))
        named = dict(model.named_parameters())
        averages = [local_shard(self.weights[name]) for name in named]
        weights = [local_shard(parameter) for parameter in named.values()]
        # the weight is a tensor, 0 after a skipped step, so that the host does not wait to read `bad`
        torch._foreach_lerp_(averages, weights, [(1 - decay) * (1 - bad)] * len(weights))


def mean_of(model: nn.Module, others: Sequence[Mapping[str, Tensor]]) -> Weights:
    """Return the mean of a model's weights and those of other checkpoints.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 6.1.
    """
    return {
        name: torch.stack([parameter.detach(), *(shard_like(other[name], parameter) for other in others)]).mean(0)
        for name, parameter in model.named_parameters()
    }


@contextmanager
def swapped_in(model: nn.Module, weights: Weights | None) -> Iterator[None]:
    """Give a model other weights, all or some, within this context; its own are restored bit for bit."""
    if weights is None:
        yield
        return
    swap_weights(model, weights)
    try:
        yield
    finally:
        swap_weights(model, weights)


@torch.no_grad()
def swap_weights(model: nn.Module, weights: Weights) -> None:
    """Swap a model's weights with others, one tensor at a time, so that no second model is held in memory."""
    for name, parameter in model.named_parameters():
        if name not in weights:
            continue
        held = parameter.clone()
        parameter.copy_(weights[name])
        weights[name].copy_(held)
