"""Rows `head`: the loss of a language head and its gradients, by zoo and by torch's functions."""

from collections.abc import Callable
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional as F

from rows.given import Given
from rows.turns import Turn
from zoo.devices.memory import keep_large_blocks
from zoo.models.heads import cross_entropy
from zoo.models.heads.scores import Scores

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # of states, weight and targets


def work(turn: Turn, given: Given, loss: Loss) -> None:
    """Repeat forward and backward passes, with zoo's allocator settings on every side."""
    keep_large_blocks()
    places, width, classes = (given.sizes[key] for key in ("places", "width", "classes"))
    generator = torch.Generator(given.device).manual_seed(0)
    drawn = {"generator": generator, "device": given.device}
    states = torch.randn(places, width, **drawn).to(given.dtype).requires_grad_()
    weight = (0.02 * torch.randn(classes, width, **drawn)).requires_grad_()
    targets = torch.randint(classes, (places,), **drawn)
    # `beyond` subtracts 16 bytes per parameter; without Adam's moments there are 8, so note half the number
    turn.note(parameters=weight.numel() // 2, cost=6 * width * classes)
    turn.forget_peak()
    while True:
        loss(states, weight, targets).backward()
        states.grad = weight.grad = None
        turn.done(places)


def zoo(turn: Turn, given: Given) -> None:
    def loss(states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        with torch.autocast(states.device.type, states.dtype, enabled=states.dtype != torch.float32):
            return Scores(states, weight).cross_entropy(targets).sum

    work(turn, given, loss)


def by_operators(turn: Turn, given: Given) -> None:
    """zoo without its GPU kernel: torch's operators instead."""
    with mock.patch.object(cross_entropy, "has_kernel", lambda device: False):
        zoo(turn, given)


def plain(turn: Turn, given: Given) -> None:
    """The usual code: all logits, then their cross entropy in float32."""

    def loss(states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(F.linear(states, weight.to(states.dtype)).float(), targets, reduction="sum")

    work(turn, given, loss)


def fused(turn: Turn, given: Given) -> None:
    """torch's linear_cross_entropy, with its default chunks."""
    options = torch.nn.LinearCrossEntropyOptions()

    def loss(states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        return F.linear_cross_entropy(states, weight.to(states.dtype), targets, reduction="sum", options=options)

    work(turn, given, loss)
