"""Copies to a device."""

from typing import Any

import pytest
import torch
from torch import Tensor

from zoo.devices import copying
from zoo.devices.copying import to_device

CPU = torch.device("cpu")


@pytest.mark.parametrize("pinned", [True, False])
def test_a_small_tensor_is_sent_from_memory_that_a_gpu_reads_by_itself(pinned: bool, monkeypatch: pytest.MonkeyPatch):
    """From other memory a GPU may first do all that it was told before, and the host waits for it."""
    steps: list[Any] = []
    to = Tensor.to

    def pin(tensor: Tensor) -> Tensor:
        steps.append("pinned")
        return tensor

    def move(tensor: Tensor, *given: Any, **named: Any) -> Tensor:
        steps.append((given, named))
        return to(tensor, *given, **named)

    monkeypatch.setattr(copying, "has_async_copies", lambda device: pinned)
    monkeypatch.setattr(Tensor, "pin_memory", pin)
    monkeypatch.setattr(Tensor, "to", move)
    assert to_device(torch.tensor([1.0, 2.0]), CPU).tolist() == [1.0, 2.0]
    assert steps == [*(["pinned"] if pinned else []), ((CPU,), {"non_blocking": True})]
