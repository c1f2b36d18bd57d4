"""The processes that train together, as one of them sees them."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object
from torch import Tensor

from zoo.devices.copying import sent
from zoo.devices.precision import widest

T = TypeVar("T")


class Processes:
    """The processes of a training; every method must be called by all of them.

    Args:
        alive: the sign of life that the watchdog waits for; called with every step from the first one on.
    """

    def __init__(self, accelerator: Accelerator, alive: Callable[[], None]) -> None:
        self.accelerator, self.alive = accelerator, alive
        # accelerate has no types
        self.rank: int = accelerator.process_index
        self.count: int = accelerator.num_processes
        self.here = int(os.environ.get("LOCAL_WORLD_SIZE", self.count))  # on this machine, if the launcher says so
        self.is_main: bool = accelerator.is_main_process
        self.device: torch.device = accelerator.device

    def put(self, numbers: Sequence[float]) -> Tensor:
        """Numbers on the device of this process."""
        return sent(torch.tensor(numbers, dtype=widest(self.device), device="cpu"), self.device)

    def sum(self, mine: Tensor) -> Tensor:
        """A tensor added up over all processes; the host does not wait for it."""
        total: Tensor = mine if self.count == 1 else self.accelerator.reduce(mine, "sum")
        return total

    def add_up(self, numbers: Sequence[float]) -> list[float]:
        """Numbers added up over all processes; those of one are as they were, also where a device rounds them."""
        if self.count == 1:
            return list(numbers)
        total: list[float] = self.sum(self.put(numbers)).tolist()
        return total

    def gather(self, mine: T) -> list[T]:
        """What each process has, in the order of their ranks."""
        return list(gather_object([mine]))

    def agree(self, make: Callable[[], T]) -> T:
        """What the main process makes, the same in every one; the others make nothing."""
        made: list[Any] = [make() if self.is_main else None]
        if self.count > 1:
            broadcast_object_list(made)
        agreed: T = made[0]
        return agreed
