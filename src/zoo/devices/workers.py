"""How many processes build batches beside one that trains."""

import os

import torch

MOST = 8


def building_workers(wanted: int | None, device: torch.device, processes: int) -> int:
    """As many as are wanted; None: those cores of the machine that the training leaves idle.

    On a CPU it leaves none. Beside a GPU one core drives it, and the others build, but no more than `MOST`.

    Args:
        processes: that train on this machine and share its cores.
    """
    if wanted is not None:
        return wanted
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 0 if device.type == "cpu" else max(0, min(MOST, cores // processes - 1))
