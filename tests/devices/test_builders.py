"""How many processes build batches: those that the user wants, else one per core that training leaves idle."""

import pytest
import torch

from zoo.devices import workers


@pytest.mark.parametrize(
    ("device", "cores", "processes", "expected"),
    [
        ("cpu", 16, 1, 0),  # training takes all cores
        ("cuda", 6, 1, 5),  # one core drives the GPU
        ("cuda", 6, 2, 2),
        ("cuda", 64, 1, 8),
        ("cuda", 1, 2, 0),
    ],
)
def test_builders_take_the_cores_that_training_leaves_idle(
    device: str, cores: int, processes: int, expected: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(workers, "available_cores", lambda: cores)
    assert workers.count_workers(None, torch.device(device), processes) == expected
    assert workers.count_workers(3, torch.device(device), processes) == 3


def test_builders_are_described():
    assert [workers.describe_workers(count) for count in (0, 1, 5)] == ["a thread", "a process", "5 processes"]
