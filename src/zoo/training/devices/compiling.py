"""When training compiles, and which blocks of a model."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from zoo.blocks.block import Block
from zoo.blocks.recurrence import Cell
from zoo.devices.compiling import compile_module, make_room, missing_for
from zoo.training.settings import Training

# Of each block, where no two are alike: rows that are full, packed or crowded (3), on either side of an attention (3
# again), and so many of them or any number (2).
GRAPHS = 18
# Steps of a run in which compiling pays on a GPU: it takes about a minute, and may halve a step of a tenth of a second
# (nanoGPT's README: 250 ms to 135). On an H200 it saves 7 ms of 60 (docs/benchmarks.md, row `gpu-bert`), which
# pays in longer runs; from how many steps on was not measured.
PAYS = 1_000


def compiles(settings: Training, device: torch.device) -> bool:
    """Whether a training compiles; with `auto`, in a long run on a GPU where torch's compiler has all that it needs."""
    if settings.compile != "auto":
        return settings.compile
    return device.type == "cuda" and (settings.steps or 0) >= PAYS and missing_for(device) is None


def compiling_said(settings: Training, model: nn.Module, device: torch.device) -> str:
    """What the log says of compiled blocks: on a GPU, or where compiling was asked for and no block can be.

    Nothing where steps decide and are not counted yet.
    """
    if not compilable(model):
        asked = settings.compile is True
        return "no block compiled (this model has only recurrent ones)" if asked else ""
    if device.type != "cuda":
        return ""
    missing = missing_for(device)
    if settings.compile == "auto" and missing is None and settings.steps is None:
        return ""
    if compiles(settings, device):
        return "blocks compiled in the first steps"
    if settings.compile is False:
        reason = "training.compile is false; it pays in long runs"
    elif missing is not None:
        reason = f"training.compile needs {missing.what}; {missing.remedy}"
    else:
        reason = f"it pays from {PAYS:,} steps on; training.compile=true does it in any run"
    return f"blocks not compiled ({reason})"


def blocks_of(model: nn.Module) -> list[Block]:
    """All of its blocks; models of recurrence alone have none."""
    return [module for module in model.modules() if isinstance(module, Block)]


def compilable(model: nn.Module) -> list[Block]:
    """The blocks that can be one graph for all batches.

    Those with a recurrent cell cannot: torch's kernels for it break a graph, and how many documents have a first place,
    a second one and so on, which is other in every batch, is numbers and not tensors.
    """
    return [block for block in blocks_of(model) if not any(isinstance(module, Cell) for module in block.modules())]


def compile_blocks(model: nn.Module) -> None:
    """Compile each block by itself: blocks of a kind share a graph, and lookups and heads need none.

    The names of parameters stay. What a row holds is tensors, so no other window of rows compiles anything anew.
    """
    blocks = compilable(model)
    if not blocks:
        return
    make_room(GRAPHS * len(blocks))
    # it would cut each graph where DDP's buckets end, to exchange gradients earlier: blocks are as small as buckets
    torch._dynamo.config.optimize_ddp = False
    for block in blocks:
        compile_module(block)


@contextmanager
def uncompiled(model: nn.Module) -> Iterator[None]:
    """Run a model's blocks as they are for a while.

    Rows of validation have many shapes. Each kind would be compiled, and take a graph from those that training may
    have.
    """
    compiled = {module: module._compiled_call_impl for module in model.modules()}
    for module in compiled:
        module._compiled_call_impl = None
    try:
        yield
    finally:
        for module, call in compiled.items():
            module._compiled_call_impl = call
