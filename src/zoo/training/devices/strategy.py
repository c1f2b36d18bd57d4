"""How a model is distributed over the processes: replicated (DDP) or sharded (FSDP2)."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.export import register_dataclass
from torch.nn.parallel import DistributedDataParallel

from zoo.devices.precision import forward_dtype
from zoo.models.kinds.part import Memory
from zoo.models.model import Model
from zoo.models.output import Output
from zoo.training.devices.compiling import blocks_of, compile_blocks, should_compile
from zoo.training.optimizers.optimizer import NeedsWholeMatrices, optimizers
from zoo.training.settings import Training

ONE, DDP, FSDP = "one process", "ddp", "fsdp"
register_dataclass(Output)  # so that FSDP finds the tensors in it, at which the backward pass begins


def choose_strategy(settings: Training, processes: int) -> str:
    """Return the strategy that the settings ask for.

    Raises:
        ValueError: it needs another number of processes, or does not combine with another setting.
    """
    if processes == 1 and settings.strategy != "auto":
        raise ValueError(f"training.strategy: {settings.strategy} needs several processes, but one started")
    if settings.strategy != FSDP:
        return ONE if processes == 1 else DDP
    if settings.precision == "float16":
        raise ValueError("training.precision: float16 does not combine with strategy fsdp; use bfloat16 or float32")
    if settings.micro_batch == "auto":
        raise ValueError("training.micro_batch: auto does not combine with strategy fsdp; set a number of sequences")
    if issubclass(optimizers[settings.optimizer.name], NeedsWholeMatrices):
        problem = f"{settings.optimizer.name} needs whole matrices, and strategy fsdp leaves a shard in each process"
        raise ValueError(f"training.optimizer: {problem}; use strategy ddp, or adamw, lion or sgd")
    return FSDP


def refuse_scalars(model: nn.Module, settings: Training) -> None:
    """Refuse 0-dimensional parameters with FSDP, which cannot shard them.

    Raises:
        ValueError: there is one; the message names it.
    """
    single = next((name for name, parameter in model.named_parameters() if not parameter.dim()), None)
    if settings.strategy == FSDP and single is not None:
        raise ValueError(
            f"training.strategy: fsdp cannot shard the scalar parameter {single}; give it shape (1,), "
            "or use strategy ddp"
        )


def distribute(model: nn.Module, settings: Training, accelerator: Accelerator) -> nn.Module:
    """Move the model to this process's device, compile its blocks if asked, and wrap it for training steps.

    Raises:
        RuntimeError: Accelerate wrapped it with another strategy than was chosen.
    """
    wanted = choose_strategy(settings, accelerator.num_processes)
    if should_compile(settings, accelerator.device):
        compile_blocks(model)
    if wanted == FSDP:
        shard(model, forward_dtype(settings.precision, accelerator.device), accelerator)
    else:
        model.to(accelerator.device)
    wrapped: nn.Module = accelerator.prepare_model(model) if wanted == DDP else model
    if strategy_of(wrapped) != wanted:
        raise RuntimeError(f"training.strategy: {wanted} was chosen, but {strategy_of(wrapped)} runs")
    return wrapped


def shard(model: nn.Module, dtype: torch.dtype | None, accelerator: Accelerator) -> None:
    """Shard each parameter over the processes. Each block is gathered when it computes, all other parameters together.

    Blocks are gathered in the dtype that they compute in, which in bfloat16 halves the traffic between processes.
    Gradients are reduced in float32. Parameters outside of blocks (embeddings, heads) are gathered once per pass, in
    float32, which is also the dtype of the hidden states between blocks.

    Source: Zhao et al. 2023, arXiv:2304.11277; torch's fully_shard, called here because `accelerator.prepare` silently
    wraps the model with DDP on CPUs.

    Args:
        dtype: of the forward pass; None: float32.
    """
    mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
    narrow = MixedPrecisionPolicy(dtype, None if dtype is None else torch.float32, cast_forward_inputs=False)
    if isinstance(model, Model):
        model.stream.register_forward_hook(require_gradient)
    for block in blocks_of(model):
        fully_shard(block, mesh=mesh, mp_policy=narrow)
    fully_shard(model, mesh=mesh)  # last: it shards the parameters that no block has taken


def require_gradient(part: nn.Module, given: tuple[object, ...], output: Tensor | Memory) -> None:
    """Make the hidden states that heads read require a gradient, even if nothing below them is trained.

    FSDP's backward hooks run when these states get their gradient; without it, the heads' gradients are not reduced.
    """
    states = output.states if isinstance(output, Memory) else output
    if torch.is_grad_enabled() and not states.requires_grad:
        states.requires_grad_()


def strategy_of(wrapped: nn.Module) -> str:
    """Return the strategy that a wrapped model really uses."""
    kinds = [type(module) for module in wrapped.modules()]
    if any(issubclass(kind, FSDPModule) for kind in kinds):
        return FSDP
    return DDP if any(issubclass(kind, DistributedDataParallel) for kind in kinds) else ONE


@contextmanager
def unsharded(model: nn.Module) -> Iterator[None]:
    """Gather the whole model in every process within this context, so that each can compute without the others."""
    shards = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for module in shards:
        module.set_reshard_after_forward(False, recurse=False)
        module.unshard()
    try:
        yield
    finally:
        for module in shards:
            # as fully_shard sets it: the root's parameters stay gathered from the forward to the backward pass
            module.set_reshard_after_forward(module is not model, recurse=False)
            module.reshard()
