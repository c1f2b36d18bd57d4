"""Claims about optimizers of shards: they are updated as whole parameters are, and the device decides whether."""

from collections.abc import Iterator

import pytest
import torch
from tiny import TinyModel
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from zoo.training.devices.shards import gather_full, shard_like
from zoo.training.optimizers.optimizer import NeedsWholeMatrices, optimizers, step_unless

STEPS = 3


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    """A group of this process alone."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield DeviceMesh("cpu", [0])
    distributed.destroy_process_group()


SHARDED = [name for name in optimizers.names() if not issubclass(optimizers[name], NeedsWholeMatrices)]


@pytest.mark.parametrize("name", SHARDED)
def test_shards_are_updated_as_whole_parameters_are(mesh: DeviceMesh, name: str):
    whole, sharded = TinyModel(), TinyModel()
    fully_shard(sharded, mesh=mesh)
    for model in (whole, sharded):
        optimizer = optimizers.build(name, model, 0.1)
        for step in range(STEPS):
            for number, parameter in enumerate(model.parameters()):
                numbers = torch.arange(parameter.numel()).view(parameter.shape)
                gradient = torch.sin(numbers + 10.0 * number + step)
                parameter.grad = shard_like(gradient, parameter)
            step_unless(torch.zeros(()), optimizer)
    for one, other in zip(whole.parameters(), sharded.parameters(), strict=True):
        torch.testing.assert_close(gather_full(other), one)


@pytest.mark.parametrize("name", SHARDED)
def test_the_device_decides_whether_shards_are_updated(mesh: DeviceMesh, name: str, monkeypatch: pytest.MonkeyPatch):
    """The host waits for no number, and a bad step changes none."""
    model = TinyModel()
    fully_shard(model, mesh=mesh)
    optimizer = optimizers.build(name, model, 0.1)
    weights = list(model.parameters())
    for weight in weights:
        weight.grad = shard_like(torch.ones(weight.shape), weight)

    def read(tensor: torch.Tensor) -> None:
        raise AssertionError("the host reads a tensor")

    before = [gather_full(weight).clone() for weight in weights]
    with monkeypatch.context() as patched:
        for way in ("__bool__", "item", "tolist"):
            patched.setattr(torch.Tensor, way, read)
        step_unless(torch.ones(()), optimizer)
        held = [gather_full(weight).clone() for weight in weights]
        step_unless(torch.zeros(()), optimizer)
    assert all(torch.equal(one, other) for one, other in zip(before, held, strict=True))
    assert not any(torch.equal(gather_full(weight), old) for weight, old in zip(weights, before, strict=True))
