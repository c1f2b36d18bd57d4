"""torch.compile: its requirements per device, compiled functions and modules, fallbacks, recompile limits."""

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
FAILED = "compiling failed"  # start of the log message
failures: list[str] = []  # reasons for failed compilation in this process; once there is one, nothing else is compiled
INCLUDES = ("CPATH", "C_INCLUDE_PATH")  # environment variables with further header folders of C compilers
COMPILERS = {"darwin": "clang++", "win32": "cl"}  # torch's choice by platform, else g++, unless CXX names another


def is_transformed() -> bool:
    """Whether a torch.func transform (grad, vmap, jvp) is active; most custom autograd Functions do not support it."""
    return bool(torch._C._are_functorch_transforms_active())


class Missing(NamedTuple):
    """A missing requirement and its remedy, as phrases for messages."""

    what: str
    remedy: str


def missing_for(device: torch.device) -> Missing | None:
    """The first missing requirement for compiling kernels for a device; None: nothing is missing.

    GPU kernels need triton, which compiles some C when it launches its first kernel (triton 3.6, runtime/build.py).
    """
    if device.type == "cuda":
        if importlib.util.find_spec("triton") is None:
            return Missing("the package triton", "install it")
        return missing_for_triton() if sys.platform == "linux" else None  # on Windows it ships a compiler
    compiler = os.environ.get("CXX", COMPILERS.get(sys.platform, "g++"))
    if device.type == "cpu" and shutil.which(compiler) is None:
        return Missing(f"a C++ compiler ('{compiler}' not found)", "install g++, set CXX to a compiler")
    return None


def missing_for_triton() -> Missing | None:
    """The first missing requirement of triton for compiling C extensions: a C compiler or Python's headers."""
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
    """Refuse `training.compile` if torch lacks a compiler for a device.

    torch would fail only in the first training step, perhaps after hours of tokenizing.

    Raises:
        ValueError: a requirement is missing.
    """
    missing = missing_for(device)
    if missing is not None:
        kind = "GPU" if device.type == "cuda" else "CPU"
        raise ValueError(f"training.compile: true on a {kind} needs {missing.what}; {missing.remedy}, or set false")


@cache
def compiled(function: Callable[..., Any], graphs: int, **options: Any) -> Any:
    """Return a compiled function; call this only when it is used, since torch.compile imports for 3 seconds.

    Args:
        graphs: the number of graphs that it may be compiled to, one per kind of arguments.
        options: of torch.compile.
    """
    if not torch.compiler.is_compiling():  # else it becomes a part of the graph being compiled
        raise_recompile_limits(graphs)
        compile_backward_at_once()
    return torch.compile(function, **options)


def compile_module(module: nn.Module) -> None:
    """Compile a module in place, at its first call; if compiling fails, it runs uncompiled."""
    compile_backward_at_once()
    module.compile()
    assert module._compiled_call_impl is not None
    module._compiled_call_impl = with_fallback(module._compiled_call_impl, module._call_impl)


def compile_backward_at_once() -> None:
    """Let torch compile backward passes together with forward passes, so that a step cannot fail halfway."""
    torch._functorch.config.force_non_lazy_backward_lowering = True


def with_fallback(compiled: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a compiled function so that it falls back to `plain` if compiling fails.

    Compiling depends on drivers, other compilers and disk space. After a failure in this process, nothing else is
    compiled, since each attempt would take as long. A function that has already run compiled stays compiled:
    recomputed activations (checkpointing) must equal those of the first pass.
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
                reason = getattr(error, "inner_exception", error)  # the cause, where torch's compiler wraps it
                works = False
                failures.append(str(reason).partition("\n")[0])
                logger.warning("%s, so the rest runs uncompiled, slower: %s", FAILED, failures[-1])
        return plain(*given, **named)

    return call


def is_of_a_compiler(error: Exception) -> bool:
    """Whether an error comes from compiling: from torch's compiler, Triton, or the C compiler that it calls."""
    if isinstance(error, ImportError | OSError | subprocess.CalledProcessError):
        return True
    passed = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__))
    if any(name.startswith("triton.") for name in passed):  # many of its errors are built-in exceptions
        return True
    return isinstance(error, torch._dynamo.exc.TorchDynamoException)


def raise_recompile_limits(graphs: int) -> None:
    """Raise torch's recompile limits to at least `graphs`.

    The default limit is 8: beyond it, functions run uncompiled with a single log line, or fail under `fullgraph`.
    """
    limits = torch._dynamo.config  # imported here, lazily, as importing the compiler is slow
    limits.recompile_limit = max(limits.recompile_limit, graphs)
    limits.accumulated_recompile_limit = max(limits.accumulated_recompile_limit, graphs)
