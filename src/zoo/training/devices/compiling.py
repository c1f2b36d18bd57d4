"""Whether training compiles, and which blocks of a model."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from zoo.blocks.block import Block
from zoo.blocks.recurrence import Cell
from zoo.devices.compiling import compile_module, missing_for, raise_recompile_limits
from zoo.training.settings import Training

# The most graphs of one block: its query rows may be whole, packed or preferably masked (3), so may its key rows (3),
# and the number of rows may be static or dynamic (2).
GRAPHS_PER_BLOCK = 18
# Steps from which `auto` compiles on a GPU. Compiling takes about a minute, and may halve a step of a tenth of a second
# (nanoGPT's README: 250 ms to 135). On an H200 it saves 7 ms of 60 (docs/benchmarks.md, row `gpu-bert`), which pays off
# in longer runs only; the exact break-even was not measured.
COMPILE_FROM = 1_000
NOTHING_TO_COMPILE = "no block compiled (recurrent layers and stages of a CNN never are, and this model has no others)"


def should_compile(settings: Training, device: torch.device) -> bool:
    """Whether a training compiles; with `auto`, in a long run on a GPU if torch's compiler has all that it needs."""
    if settings.compile != "auto":
        return settings.compile
    return device.type == "cuda" and (settings.steps or 0) >= COMPILE_FROM and missing_for(device) is None


def describe_compiling(settings: Training, model: nn.Module, device: torch.device) -> str:
    """Return what the log says about compiling, on a GPU or if compiling was asked for and no block can be compiled.

    '' if there is nothing to say, or if `auto` depends on a number of steps that is not known yet.
    """
    if not compilable_blocks(model):
        asked = settings.compile is True
        return NOTHING_TO_COMPILE if asked else ""
    if device.type != "cuda":
        return ""
    missing = missing_for(device)
    if settings.compile == "auto" and missing is None and settings.steps is None:
        return ""
    if should_compile(settings, device):
        return "blocks compiled in the first steps"
    if settings.compile is False:
        reason = "training.compile is false; it pays in long runs"
    elif missing is not None:
        reason = f"training.compile needs {missing.what}; {missing.remedy}"
    else:
        reason = f"it pays from {COMPILE_FROM:,} steps on; training.compile=true does it in any run"
    return f"blocks not compiled ({reason})"


def blocks_of(model: nn.Module) -> list[Block]:
    """Return all blocks of a model; recurrent models and CNNs have none."""
    return [module for module in model.modules() if isinstance(module, Block)]


def compilable_blocks(model: nn.Module) -> list[Block]:
    """Return the blocks that one graph can serve in all batches.

    Blocks with a recurrent cell are left out: torch's recurrent kernels break the graph, and the `batch_sizes` of
    packed sequences are Python numbers that differ in every batch.
    """
    return [block for block in blocks_of(model) if not any(isinstance(module, Cell) for module in block.modules())]


def compile_blocks(model: nn.Module) -> None:
    """Compile each block by itself: equal blocks share a graph, and embeddings and heads need none.

    Parameter names stay the same. The documents of a row are tensors, so new batches do not recompile anything.
    """
    blocks = compilable_blocks(model)
    if not blocks:
        return
    raise_recompile_limits(GRAPHS_PER_BLOCK * len(blocks))
    # it would split graphs at DDP's buckets to exchange gradients earlier, but blocks are as small as buckets already
    torch._dynamo.config.optimize_ddp = False
    for block in blocks:
        compile_module(block)


@contextmanager
def uncompiled(model: nn.Module) -> Iterator[None]:
    """Run a model's blocks uncompiled within this context.

    Rows of validation have many shapes. Each would be compiled, and count towards torch's recompilation limit.
    """
    # nn.Module.__call__ uses this attribute, which `compile` sets, unless it is None; torch has no public switch
    compiled = {module: module._compiled_call_impl for module in model.modules()}
    for module in compiled:
        module._compiled_call_impl = None
    try:
        yield
    finally:
        for module, call in compiled.items():
            module._compiled_call_impl = call
