"""Functions for tensors that may be sharded over the processes (FSDP2) or whole."""

from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor


def gather_full(tensor: Tensor) -> Tensor:
    """Gather a tensor from the shards of all processes; all of them must call this."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def shard_like(tensor: Tensor, other: Tensor) -> Tensor:
    """Convert a whole tensor, which every process has, to another tensor's device and dtype, and shard it like that."""
    tensor = tensor.to(other.device, other.dtype)
    if not isinstance(other, DTensor):
        return tensor
    return distribute_tensor(tensor, other.device_mesh, other.placements, src_data_rank=None)


def local_shard(tensor: Tensor) -> Tensor:
    """Return this process's shard of a tensor, or a whole tensor itself."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
