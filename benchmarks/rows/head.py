"""Rows `head`: the loss of a language head and its gradients, by zoo and by torch's functions."""

from collections.abc import Callable
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional as F

from rows.side_args import SideArgs
from rows.side_process import TurnReporter
from zoo.devices.memory import keep_large_blocks
from zoo.models.heads import cross_entropy
from zoo.models.heads.scores import Scores

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # of states, weight and targets


def measure_loss(reporter: TurnReporter, args: SideArgs, loss: Loss) -> None:
    """Repeat forward and backward passes, with zoo's allocator settings on every side."""
    keep_large_blocks()
    positions, d_model, vocab_size = (args.sizes[key] for key in ("places", "width", "classes"))
    generator = torch.Generator(args.device).manual_seed(0)
    options = {"generator": generator, "device": args.device}
    states = torch.randn(positions, d_model, **options).to(args.dtype).requires_grad_()
    weight = (0.02 * torch.randn(vocab_size, d_model, **options)).requires_grad_()
    targets = torch.randint(vocab_size, (positions,), **options)
    # `memory_overhead` subtracts 16 bytes per parameter; without Adam's moments there are 8, so record half the number
    reporter.record(parameters=weight.numel() // 2, cost=6 * d_model * vocab_size)
    reporter.reset_peak_memory()
    while True:
        loss(states, weight, targets).backward()
        states.grad = weight.grad = None
        reporter.report(positions)


def zoo(reporter: TurnReporter, args: SideArgs) -> None:
    def loss(states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        with torch.autocast(states.device.type, states.dtype, enabled=states.dtype != torch.float32):
            return Scores(states, weight).cross_entropy(targets).sum

    measure_loss(reporter, args, loss)


def by_operators(reporter: TurnReporter, args: SideArgs) -> None:
    """zoo with torch's operators instead of its GPU kernel."""
    with mock.patch.object(cross_entropy, "has_kernel", lambda device: False):
        zoo(reporter, args)


def plain(reporter: TurnReporter, args: SideArgs) -> None:
    """The usual code: all logits, then their cross entropy in float32."""

    def loss(states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(F.linear(states, weight.to(states.dtype)).float(), targets, reduction="sum")

    measure_loss(reporter, args, loss)


def fused(reporter: TurnReporter, args: SideArgs) -> None:
    """torch's linear_cross_entropy, with its default chunks."""
    options = torch.nn.LinearCrossEntropyOptions()

    def loss(states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        return F.linear_cross_entropy(states, weight.to(states.dtype), targets, reduction="sum", options=options)

    measure_loss(reporter, args, loss)
