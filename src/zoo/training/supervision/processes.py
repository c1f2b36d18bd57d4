"""The processes that train together, as one of them sees them: all that training asks of the others goes through it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object
from torch import Tensor

T = TypeVar("T")


def unwatched() -> None:
    """No watchdog waits for a sign of life."""


@dataclass(frozen=True)
class Processes:
    """The processes of a training; every method but `alive` must be called by all of them.

    Args:
        alive: the sign of life that the watchdog waits for; called with every step from the first one on.
    """

    accelerator: Accelerator
    alive: Callable[[], None] = unwatched

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        return int(self.accelerator.process_index)

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self.accelerator.num_processes)

    @property
    def is_main(self) -> bool:
        """Whether this is the one that writes files and logs."""
        return bool(self.accelerator.is_main_process)

    @property
    def device(self) -> torch.device:
        """Where this process computes."""
        device: torch.device = self.accelerator.device
        return device

    def add_up(self, numbers: Sequence[float] | Tensor) -> list[float]:
        """Numbers added up over all processes."""
        # Apple's GPUs have no float64
        dtype = torch.float32 if self.device.type == "mps" else torch.float64
        local = torch.as_tensor(numbers, dtype=dtype)
        if self.count == 1:
            return local.tolist()
        total: list[float] = self.accelerator.reduce(local.to(self.device), "sum").tolist()
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

    def main_first(self) -> AbstractContextManager[Any]:
        """Let the main process do something before the others, which then find it done."""
        first: AbstractContextManager[Any] = self.accelerator.main_process_first()
        return first

    def wait(self) -> None:
        """Wait until every process is here."""
        self.accelerator.wait_for_everyone()
