"""How many processes build batches beside one that trains."""

import torch

from zoo.devices.cores import available_cores

MOST = 8


def building_workers(wanted: int | None, device: torch.device, processes: int) -> int:
    """How many processes build batches; where no number is wanted, one for each core that the training leaves idle.

    On a CPU it leaves none. Beside a GPU one core drives it, and the others build, but no more than `MOST`.

    Args:
        processes: that train on this machine and share its cores.
    """
    if wanted is not None:
        return wanted
    return 0 if device.type == "cpu" else max(0, min(MOST, available_cores() // processes - 1))


def builders(workers: int) -> str:
    """What builds batches, in words."""
    return "a thread" if workers == 0 else "a process" if workers == 1 else f"{workers} processes"
