"""The processes that train together, seen from one of them, and their collective operations."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object
from torch import Tensor

from zoo.devices.copying import to_device
from zoo.devices.precision import widest_dtype

T = TypeVar("T")


class Processes:
    """The processes of a training. All of them must call every method but `to_device`.

    Args:
        alive: tells the watchdog that this process makes progress; called in every step.
    """

    def __init__(self, accelerator: Accelerator, alive: Callable[[], None]) -> None:
        self.accelerator, self.alive = accelerator, alive
        # annotated because accelerate has no types
        self.rank: int = accelerator.process_index
        self.count: int = accelerator.num_processes
        # On this machine, if the launcher says so.
        self.local_count = int(os.environ.get("LOCAL_WORLD_SIZE", self.count))
        self.is_main: bool = accelerator.is_main_process
        self.device: torch.device = accelerator.device

    def to_device(self, numbers: Sequence[float]) -> Tensor:
        """Return numbers as a tensor (numbers,) on this process's device, in the widest float type that it has."""
        return to_device(torch.tensor(numbers, dtype=widest_dtype(self.device), device="cpu"), self.device)

    def sum(self, mine: Tensor) -> Tensor:
        """Sum a tensor over all processes; the host does not wait for the result."""
        total: Tensor = mine if self.count == 1 else self.accelerator.reduce(mine, "sum")
        return total

    def sum_numbers(self, numbers: Sequence[float]) -> list[float]:
        """Sum numbers over all processes; a single process returns its own, not rounded to its device's float type."""
        if self.count == 1:
            return list(numbers)
        total: list[float] = self.sum(self.to_device(numbers)).tolist()
        return total

    def gather(self, mine: T) -> list[T]:
        """Return the objects of all processes, in the order of their ranks."""
        return list(gather_object([mine]))

    def broadcast(self, make: Callable[[], T]) -> T:
        """Return in every process what `make` returns in the main process; the others do not call it."""
        made: list[Any] = [make() if self.is_main else None]
        if self.count > 1:
            broadcast_object_list(made)
        agreed: T = made[0]
        return agreed
