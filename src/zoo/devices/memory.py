"""Memory: settings of glibc's malloc and Python's garbage collector, and what to do when it runs out."""

import ctypes
import gc
import logging
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import torch

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # glibc's malloc.h
LARGE, SMALL = 1 << 30, 1 << 19  # bytes: blocks of LARGE and more are always mapped, below SMALL never
# trim threshold -1: freed memory is never returned, which in BERT's training is over a gigabyte after each step
KEEP = {M_MMAP_THRESHOLD: LARGE, M_TRIM_THRESHOLD: -1, M_TOP_PAD: 64 << 20}
NO_MEMORY = (  # out-of-memory messages of the CPU's allocator, CUDA and its libraries, Triton and Apple's GPUs
    "can't allocate memory",
    "CUDA error: out of memory",
    "CUDA driver error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "Triton Error [CUDA]: out of memory",
    "MPS backend out of memory",
    "Invalid buffer size",
)
T = TypeVar("T")
R = TypeVar("R")
logger = logging.getLogger(__name__)


def keep_large_blocks() -> bool:
    """Make glibc reuse the memory of large tensors; return whether it accepted. Other C libraries are left alone.

    By default glibc maps every large tensor anew, and each of its pages costs a page fault: 40 % of a training step on
    a CPU.
    """
    # older versions refuse the first setting; then stop, since the others alone keep memory but save no page faults
    return all(set_malloc(parameter, value) for parameter, value in KEEP.items())


def map_large_blocks() -> bool:
    """Make glibc map every large tensor separately, and keep it so; return whether it accepted.

    Otherwise long-lived blocks (weights, optimizer moments, oneDNN's compiled kernels) would lie between the tensors of
    the first step and fragment the heap: a process takes 3 to 7 % more memory. Call this before the first tensor is
    made, and `keep_large_blocks` after the first step.
    """
    # older versions refuse the larger threshold; then stop, since the smaller one alone could not be raised again
    return all(set_malloc(M_MMAP_THRESHOLD, threshold) for threshold in (LARGE, SMALL))


def trim_heap() -> None:
    """Return freed memory of glibc's heaps to the system; with other C libraries, do nothing."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def set_malloc(parameter: int, value: int) -> bool:
    """Change a setting of glibc's malloc, if that is the C library; return whether it accepted."""
    return platform.libc_ver()[0] == "glibc" and ctypes.CDLL(None).mallopt(parameter, value) == 1


@cache
def freeze_imports() -> None:
    """Exclude everything imported so far from Python's garbage collection, for good (`gc.freeze`).

    A full collection, which runs whenever the number of objects has grown by a quarter, would scan all objects of torch
    and other libraries: 0.14 s every few thousand short examples, during which training waits. Processes forked later
    do not touch these objects either, and so keep sharing their memory. Call this before the first model is made, since
    reference cycles among frozen objects are never freed. A second call does nothing.
    """
    gc.freeze()


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error means that a device, or the CPU, is out of memory."""
    error = getattr(error, "inner_exception", error)  # torch's compiler wraps the cause
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(words in str(error) for words in NO_MEMORY)


def empty_cache() -> None:
    """Return the GPU memory that torch's allocator caches but no tensor uses, as after a failed pass."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()


def map_batches(items: Sequence[T], size: int, work: Callable[[Sequence[T]], R]) -> Iterator[R]:
    """Apply `work` to batches of `size` items and yield the results.

    If a batch runs out of memory, it and all later ones are halved, as with `training.micro_batch: auto`.

    Raises:
        RuntimeError: a single item runs out of memory.
    """
    start = 0
    while start < len(items):
        tried = items[start : start + size]
        fits, found = try_batch(tried, work)
        if fits:
            yield from found
            start += size
            continue
        empty_cache()
        size = -(-len(tried) // 2)
        logger.warning("out of memory with a batch of %d: continuing with batches of %d", len(tried), size)


def try_batch(batch: Sequence[T], work: Callable[[Sequence[T]], R]) -> tuple[bool, list[R]]:
    """Return (True, [result]), or (False, []) if memory ran out; a failed pass leaves no tensors referenced.

    Raises:
        RuntimeError: memory ran out with a single item.
    """
    try:
        return True, [work(batch)]
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        if len(batch) == 1:
            raise RuntimeError(f"out of memory with a batch of 1; choose --device cpu. {first_line(error)}") from error
        return False, []


@contextmanager
def explain_memory(micro_batch: int | None) -> Iterator[None]:
    """Context that replaces an out-of-memory error in training by one that names the setting to lower.

    Args:
        micro_batch: rows per forward pass; None: all rows of the process.

    Raises:
        RuntimeError: memory ran out.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        now = "the whole share of a process" if micro_batch is None else micro_batch
        raise RuntimeError(
            f"out of memory: lower training.micro_batch (now {now}), which changes no gradient, or set it to auto; if "
            "it is 1, set training.checkpointing=true or, with several GPUs, training.strategy=fsdp. "
            f"{first_line(error)}"
        ) from error


def first_line(error: Exception) -> str:
    """The first line of an error's message; the name of its class if it has none, like Python's MemoryError."""
    return str(error).partition("\n")[0] or type(error).__name__
