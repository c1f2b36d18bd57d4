"""What a training's performance settings resolve to on its device, as environment.json records it."""

import torch
from torch import nn

from zoo.devices.copying import has_async_copies
from zoo.devices.large_products import waits_for_memory
from zoo.devices.memory import map_large_blocks
from zoo.devices.precision import forward_dtype, name_of_dtype
from zoo.devices.workers import count_workers, describe_workers
from zoo.models.heads.cross_entropy import FEW, has_kernel, logits_at_once
from zoo.models.kinds.part import Part
from zoo.strict_yaml import Tree
from zoo.training.devices.compiling import blocks_of, compilable_blocks, should_compile
from zoo.training.devices.strategy import DDP, FSDP, choose_strategy
from zoo.training.optimizers.optimizer import describe_kernels
from zoo.training.settings import Training
from zoo.training.supervision.processes import Processes


def describe_performance(settings: Training, processes: Processes, model: nn.Module) -> Tree:
    """Describe what each performance setting resolves to, by its name in environment.json.

    Args:
        model: only its structure matters, not its weights.

    Raises:
        ValueError: the settings do not fit the device, or the number of processes.
    """
    device = processes.device
    workers = count_workers(settings.workers, device, processes.local_count)
    pinned = ", in pinned memory" if settings.pin_memory and has_async_copies(device) else ""
    chunks = f"in chunks of about {logits_at_once(device):,} logits, each with its gradient"
    chunks += f", by one kernel from {FEW:,} classes on" if has_kernel(device) else ""
    compiled = describe_compiled(model) if should_compile(settings, device) else "nothing"
    drawn = "a byte per decision" + (", in compiled blocks a float" if compiled != "nothing" else "")
    read = "positions that a head reads" if settings.skip_unread and skips_unread(model) else "all positions"
    # only the kernel that it chooses on this device matters, so a tiny layer stands in for the model
    optimizer = settings.optimizer.build(nn.Linear(2, 2, device=device), settings.learning_rate)
    return {
        "precision": name_of_dtype(settings.precision, device),
        "strategy": describe_strategy(settings, processes),
        "compile": compiled,
        "optimizer": f"{settings.optimizer.name}: {describe_kernels(optimizer)}",
        "loss": chunks if settings.chunked_loss else "of all logits at once",
        "last_layer": f"of {read}",
        "dropout": drawn if settings.byte_dropout and device.type == "cpu" else "torch's",
        "layers": describe_layers(settings, device, compiled != "nothing"),
        "batches": f"built ahead by {describe_workers(workers)}{pinned}",
        # set when the process started; setting it again returns whether the C library accepts it
        "large_blocks": "kept" if settings.keep_memory and map_large_blocks() else "returned",
    }


def describe_layers(settings: Training, device: torch.device, compiled: bool) -> str:
    """Describe how linear layers are computed; compiled ones are the compiler's."""
    gains = waits_for_memory(device, forward_dtype(settings.precision, device))
    laid_out = settings.fast_layers and gains and not compiled
    return "torch's, gradients of large weights laid out for AMX" if laid_out else "torch's"


def skips_unread(model: nn.Module) -> bool:
    """Whether a part of a model can skip positions that no head reads."""
    return any(isinstance(module, Part) and module.picks for module in model.modules())


def describe_compiled(model: nn.Module) -> str:
    """Describe which blocks of a model are compiled."""
    able, every = len(compilable_blocks(model)), len(blocks_of(model))
    if able == 0:
        return "nothing"
    return "each block" if able == every else f"{able} of {every} blocks, those without recurrence"


def describe_strategy(settings: Training, processes: Processes) -> str:
    """Describe how the model is distributed over the processes, and how gradients are reduced."""
    chosen = choose_strategy(settings, processes.count)
    if chosen == DDP:
        return f"{chosen}, gradients {'as views of' if settings.bucket_views else 'copied to'} buckets"
    if chosen == FSDP:
        narrow = name_of_dtype(settings.precision, processes.device)
        return f"{chosen}, blocks gathered in {narrow}, gradients reduced in float32"
    return chosen
