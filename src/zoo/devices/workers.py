"""The number of worker processes that build batches for a training process."""

import torch

from zoo.devices.cores import available_cores

MOST = 8


def count_workers(wanted: int | None, device: torch.device, processes: int) -> int:
    """Number of worker processes that build batches: as set, else one per core that training leaves idle.

    Training on a CPU leaves none idle. With a GPU, one core drives it and the others build batches, at most `MOST`.

    Args:
        wanted: the number set by the user; None: choose.
        processes: training processes on this machine, which share its cores.
    """
    if wanted is not None:
        return wanted
    return 0 if device.type == "cpu" else max(0, min(MOST, available_cores() // processes - 1))


def describe_workers(workers: int) -> str:
    """Describe the batch builders for logs."""
    if workers == 0:
        return "a thread"
    return "a process" if workers == 1 else f"{workers} processes"
