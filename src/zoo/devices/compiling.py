"""torch.compile: what it needs on a device, functions and modules that are compiled, and room for their graphs."""

import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import sysconfig
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from zoo.devices.memory import is_out_of_memory

logger = logging.getLogger(__name__)
FAILED = "compiling failed"  # how the log begins to say so
failures: list[str] = []  # why it did, in this process, which then runs what would be compiled as it is
INCLUDES = ("CPATH", "C_INCLUDE_PATH")  # where compilers of C also look for headers
COMPILERS = {"darwin": "clang++", "win32": "cl"}  # by platform, else g++: torch's own choices, unless CXX names another


def is_transformed() -> bool:
    """Whether torch.func transforms what runs now (grad, vmap, jvp); it refuses most backward passes of our own."""
    return bool(torch._C._are_functorch_transforms_active())


class Missing(NamedTuple):
    """What is not here, and what helps, as the ends of sentences."""

    what: str
    remedy: str


def missing_for(device: torch.device) -> Missing | None:
    """What torch lacks to write kernels for a device; None: nothing.

    Those of a GPU are triton's, which also compiles some C when it first starts one (triton 3.6, runtime/build.py).
    """
    if device.type == "cuda":
        if importlib.util.find_spec("triton") is None:
            return Missing("the package triton", "install it")
        return missing_for_triton() if sys.platform == "linux" else None  # elsewhere it brings its own compiler
    compiler = os.environ.get("CXX", COMPILERS.get(sys.platform, "g++"))
    if device.type == "cpu" and shutil.which(compiler) is None:
        return Missing(f"a C++ compiler ('{compiler}' not found)", "install g++, set CXX to a compiler")
    return None


def missing_for_triton() -> Missing | None:
    """What triton lacks to compile C that Python can call."""
    compilers = [os.environ["CC"]] if "CC" in os.environ else ["gcc", "clang"]
    if not any(map(shutil.which, compilers)):
        named = ", ".join(f"'{compiler}'" for compiler in compilers)
        return Missing(f"a C compiler ({named} not found)", "install gcc, set CC to a compiler")
    headers = Path(sysconfig.get_path("include", "posix_prefix"), "Python.h")
    told = (folder for name in INCLUDES for folder in os.environ.get(name, "").split(os.pathsep) if folder)
    if not headers.exists() and not any(Path(folder, headers.name).exists() for folder in told):
        return Missing(f"Python's headers ({headers} not found)", "install them (Debian: python3-dev)")
    return None


def refuse_without_compiler(device: torch.device) -> None:
    """Refuse `training.compile` where torch would not find what writes kernels for a device.

    torch says so itself, but in the first step, in its own words, after hours of tokenising perhaps.

    Raises:
        ValueError: something is missing.
    """
    missing = missing_for(device)
    if missing is not None:
        kind = "GPU" if device.type == "cuda" else "CPU"
        raise ValueError(f"training.compile: true on a {kind} needs {missing.what}; {missing.remedy}, or set false")


@cache
def compiled(function: Callable[..., Any], graphs: int, **options: Any) -> Any:
    """A compiled function, when it is first used: even an idle torch.compile imports the compiler, for 3 seconds.

    Args:
        graphs: kinds of arguments that it may have.
    """
    if not torch.compiler.is_compiling():  # a block around it
        make_room(graphs)
        compile_backward_at_once()
    return torch.compile(function, **options)


def compile_module(module: nn.Module) -> None:
    """Compile a module's pass in its place, when it is first called; without a compiler it is slower, not lost."""
    compile_backward_at_once()
    module.compile()
    assert module._compiled_call_impl is not None
    module._compiled_call_impl = or_plain(module._compiled_call_impl, module._call_impl)


def compile_backward_at_once() -> None:
    """Let torch compile backward passes with the forward ones, so that nothing fails in the middle of a step."""
    torch._functorch.config.force_non_lazy_backward_lowering = True


def or_plain(compiled: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled function, or the function as it is where torch's compiler has failed in this process.

    A compiler needs much of a machine: a driver, another compiler, room on a disk. After a failure nothing else is
    compiled, since each attempt would take as long. What has run compiled goes on so: activations that are computed
    again must be those of the first pass.
    """
    works = False

    def call(*given: Any, **named: Any) -> Any:
        nonlocal works
        if works or not failures:
            try:
                said = compiled(*given, **named)
                works = True
                return said
            except Exception as error:
                if is_out_of_memory(error) or not is_of_a_compiler(error):
                    raise
                reason = getattr(error, "inner_exception", error)  # of what compiles a graph
                works = False
                failures.append(str(reason).partition("\n")[0])
                logger.warning("%s, so the rest runs uncompiled, slower: %s", FAILED, failures[-1])
        return plain(*given, **named)

    return call


def is_of_a_compiler(error: Exception) -> bool:
    """Whether what writes kernels raised an error: torch's compiler, Triton, or the compiler of C that it calls."""
    if isinstance(error, ImportError | OSError | subprocess.CalledProcessError):
        return True
    passed = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__))
    if any(name.startswith("triton.") for name in passed):  # many of its errors are of Python's own classes
        return True
    return isinstance(error, torch._dynamo.exc.TorchDynamoException)


def make_room(graphs: int) -> None:
    """Let a function be compiled for so many kinds of arguments.

    torch's own limit is 8: every further kind runs uncompiled, with no more than a line in the log, or fails where the
    function must be one graph.
    """
    limits = torch._dynamo.config  # which imports the compiler when it is asked for
    limits.recompile_limit = max(limits.recompile_limit, graphs)
    limits.accumulated_recompile_limit = max(limits.accumulated_recompile_limit, graphs)
