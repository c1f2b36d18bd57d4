"""torch.compile: what it needs on a device, and room for the graphs that models need."""

import importlib.util
import os
import shutil
import sys

import torch

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


def make_room(graphs: int) -> None:
    """Let a function be compiled for so many kinds of arguments.

    torch's own limit is 8: every further kind runs uncompiled, with no more than a line in the log, or fails where the
    function must be one graph.
    """
    limits = torch._dynamo.config  # which imports the compiler when it is asked for
    limits.recompile_limit = max(limits.recompile_limit, graphs)
    limits.accumulated_recompile_limit = max(limits.accumulated_recompile_limit, graphs)
