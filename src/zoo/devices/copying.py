"""Copies of batches to a device, beside what it computes."""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor


def reads_pinned(device: torch.device) -> bool:
    """Whether a device copies from pinned memory by itself, while the host goes on."""
    return device.type == "cuda"


def sent(here: Tensor, device: torch.device) -> Tensor:
    """A small tensor on a device, for the work that comes next; the host waits for nothing.

    A GPU that does not copy from pinned memory may first have to do all that it was told before.
    """
    return (here.pin_memory() if reads_pinned(device) else here).to(device, non_blocking=True)


def copier(device: torch.device) -> Callable[[Tensor], Tensor]:
    """How to copy a tensor to a device: to a GPU in a stream of its own, for which the work that comes next waits.

    The host waits for nothing, and no copy of pinned memory waits for what the GPU computes.
    """
    if not reads_pinned(device):
        return lambda tensor: tensor.to(device, non_blocking=True)
    copies, work = stream_of_copies(device), torch.accelerator.current_stream(device)

    def copy(tensor: Tensor) -> Tensor:
        with copies:
            there = tensor.to(device, non_blocking=True)
        work.wait_stream(copies)
        there.record_stream(work)  # else its memory may be given to a later copy before the work is done
        return there

    return copy


@cache
def stream_of_copies(device: torch.device) -> torch.Stream:
    """The stream in which this process copies to a device."""
    return torch.Stream(device)
