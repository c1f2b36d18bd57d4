"""Tensors of which each process holds a shard (FSDP2), and whole ones in the same words."""

from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor


def whole(tensor: Tensor) -> Tensor:
    """A whole tensor, put together from the shards of all processes; all of them must call this."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def spread_like(tensor: Tensor, other: Tensor) -> Tensor:
    """A whole tensor, which every process has, on the device of another tensor and sharded like it."""
    tensor = tensor.to(other.device, other.dtype)
    if not isinstance(other, DTensor):
        return tensor
    return distribute_tensor(tensor, other.device_mesh, other.placements, src_data_rank=None)


def local(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
