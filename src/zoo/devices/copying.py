"""Copies of batches to a device that overlap with its computation."""

from collections.abc import Callable
from functools import cache
from threading import get_ident

import torch
from torch import Tensor


def has_async_copies(device: torch.device) -> bool:
    """Whether a device copies from pinned memory asynchronously."""
    return device.type == "cuda"


def to_device(here: Tensor, device: torch.device) -> Tensor:
    """Copy a small tensor from the CPU to a device, in the current stream, without a host synchronization on CUDA.

    Other GPUs may first have to finish the work that is already queued.
    """
    return (here.pin_memory() if has_async_copies(device) else here).to(device, non_blocking=True)


def make_copier(device: torch.device) -> Callable[[Tensor], Tensor]:
    """Return a function that copies tensors to a device, on CUDA in a separate stream.

    The current stream waits for each copy; the host does not, and copies from pinned memory overlap with computation.
    """
    if not has_async_copies(device):
        return lambda tensor: tensor.to(device, non_blocking=True)
    copies, work = stream_of_copies(device, get_ident()), torch.accelerator.current_stream(device)

    def copy(tensor: Tensor) -> Tensor:
        with copies:
            there = tensor.to(device, non_blocking=True)
        work.wait_stream(copies)
        there.record_stream(work)  # else the allocator may reuse its memory for a later copy while it is in use
        return there

    return copy


@cache
def stream_of_copies(device: torch.device, thread: int) -> torch.Stream:
    """The stream for a thread's copies to a device.

    One stream for all threads would not do: as a context, a torch.Stream itself keeps the stream to return to. Of two
    threads inside it at once, one would return to the other's stream, the other to none.
    """
    return torch.Stream(device)
