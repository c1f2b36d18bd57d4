"""torch.compile: what it needs on a device, functions that are compiled, and room for their graphs."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

COMPILERS = {"darwin": "clang++", "win32": "cl"}  # by platform, else g++: torch's own choices, unless CXX names another


def refuse_without_compiler(device: torch.device, place: str) -> None:
    """Refuse to compile where torch would not find what writes kernels for a device.

    torch says so itself, but in the first step, in its own words, after hours of tokenising perhaps.

    Args:
        place: where compiling was asked for, for the message.

    Raises:
        ValueError: there is no C++ compiler, or on CUDA no triton.
    """
    if device.type == "cuda" and importlib.util.find_spec("triton") is None:
        raise ValueError(f"{place}: true needs the package triton on a GPU; install it, or set false")
    compiler = os.environ.get("CXX", COMPILERS.get(sys.platform, "g++"))
    if device.type == "cpu" and shutil.which(compiler) is None:
        problem = f"true needs a C++ compiler on a CPU, and there is no '{compiler}' here"
        raise ValueError(f"{place}: {problem}; install g++, let CXX name a compiler, or set false")


@cache
def compiled(function: Callable[..., Any], graphs: int, **options: Any) -> Any:
    """A compiled function, when it is first used: even an idle torch.compile imports the compiler, for 3 seconds.

    Args:
        graphs: kinds of arguments that it may have.
    """
    if not torch.compiler.is_compiling():  # a block around it
        make_room(graphs)
    return torch.compile(function, **options)


def any_number_of_rows(*tensors: Tensor) -> None:
    """Let a compiled function make one graph for these tensors however long they are, beside one for a single row."""
    for tensor in tensors:
        torch._dynamo.maybe_mark_dynamic(tensor, 0)  # type: ignore[attr-defined]


def make_room(graphs: int) -> None:
    """Let a function be compiled for so many kinds of arguments.

    torch's own limit is 8: every further kind runs uncompiled, with no more than a line in the log, or fails where the
    function must be one graph.
    """
    limits = torch._dynamo.config  # which imports the compiler when it is asked for
    limits.recompile_limit = max(limits.recompile_limit, graphs)
    limits.accumulated_recompile_limit = max(limits.accumulated_recompile_limit, graphs)
