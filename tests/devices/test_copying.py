"""Copies to a device."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from zoo.devices import copying
from zoo.devices.copying import make_copier, to_device

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


def test_threads_that_copy_at_once_return_to_their_own_streams(monkeypatch: pytest.MonkeyPatch):
    """As a context, a torch.Stream keeps the stream to return to in itself, whichever thread entered it."""
    current, inside = threading.local(), threading.Barrier(2, timeout=10)

    class Stream:
        def __init__(self, device: torch.device) -> None:
            self.before: Any = None

        def __enter__(self) -> None:
            self.before, current.stream = current.stream, self

        def __exit__(self, *error: object) -> None:
            current.stream = self.before

        def wait_stream(self, other: Any) -> None:
            pass

    def copied_beside_another(number: int) -> bool:
        mine = current.stream = Stream(CPU)
        tensor = Mock(to=lambda *given, **named: (inside.wait(), Mock())[1])
        inside.wait()
        make_copier(CPU)(tensor)
        return current.stream is mine

    monkeypatch.setattr(copying, "has_async_copies", lambda device: True)
    monkeypatch.setattr(copying, "stream_of_copies", cache(copying.stream_of_copies.__wrapped__))
    monkeypatch.setattr(torch, "Stream", Stream)
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda device: current.stream)
    with ThreadPoolExecutor(2) as threads:
        assert all(threads.map(copied_beside_another, range(2)))
