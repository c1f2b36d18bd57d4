"""Memory: glibc keeps large blocks, imports are set aside, an error names the setting to lower."""

import ctypes
import gc
import logging
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # glibc's malloc.h
LARGE, SMALL = 1 << 30, 1 << 19  # bytes: what glibc maps by itself however much is kept, and what it never does
# -1: nothing is given back, as more than a gigabyte would be after each step of BERT
KEEP = {M_MMAP_THRESHOLD: LARGE, M_TRIM_THRESHOLD: -1, M_TOP_PAD: 64 << 20}
NO_MEMORY = (  # as the CPU's allocator, CUDA and its libraries, Triton and Apple's GPUs say it
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
FEW = 10_000  # objects: Python 3.12 sets some hundreds of its own aside, imports make more than a hundred thousand


def keep_large_blocks() -> bool:
    """Make glibc reuse the memory of large tensors; whether it agreed. With other C libraries nothing happens.

    Otherwise glibc maps every large tensor anew, and each of its pages costs a page fault: 40 % of a training step on
    a CPU.
    """
    # older versions refuse the first setting alone; the other two without it would keep memory and save no page fault
    return all(set_malloc(parameter, value) for parameter, value in KEEP.items())


def map_large_blocks() -> bool:
    """Make glibc map every large tensor by itself, as it does at first anyway; whether it agreed.

    What lives long, such as weights, moments and what oneDNN compiles in the first step, would else lie between the
    tensors of the step, and leave holes in which no large one fits: a process takes 3 to 7 % more memory. Call
    this before the first tensor is made, and `keep_large_blocks` after the first step.
    """
    # older versions take only the smaller threshold, and would map whatever is larger for good: they are left alone
    return all(set_malloc(M_MMAP_THRESHOLD, threshold) for threshold in (LARGE, SMALL))


def set_malloc(parameter: int, value: int) -> bool:
    """Change a setting of glibc's malloc, if that is the C library; whether it agreed."""
    return platform.libc_ver()[0] == "glibc" and ctypes.CDLL(None).mallopt(parameter, value) == 1


def set_imports_aside() -> None:
    """Let Python's garbage collector leave alone, for good, what was imported by now.

    It looks at all objects once there are a quarter more, torch's and those of other libraries with them: 0.14 s every
    few thousand short examples, for which the steps of a training wait. Processes that are forked later leave them
    alone, too, and so go on sharing their memory. Call this before the first model is made: what refers to itself, in
    use or not, is never freed once it is set aside. A second call does nothing.
    """
    if gc.get_freeze_count() < FEW:
        gc.freeze()


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error says that a device, or the CPU, has no memory left."""
    error = getattr(error, "inner_exception", error)  # torch's compiler wraps what ends it
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(words in str(error) for words in NO_MEMORY)


def empty_cache() -> None:
    """Give back to the GPU what a failed pass took and nothing holds any more."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()


def in_batches(items: Sequence[T], size: int, work: Callable[[Sequence[T]], R]) -> Iterator[R]:
    """What `work` makes of `size` items at a time.

    A batch that memory does not hold is halved, and so are those after it, as `training.micro_batch: auto` does.

    Raises:
        RuntimeError: memory does not hold a single item.
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
    """Whether memory holds a batch, and what `work` makes of it; nothing of a failed pass is held after this.

    Raises:
        RuntimeError: the batch is a single item.
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
    """Say which setting to lower when a training step runs out of memory.

    Args:
        micro_batch: rows in one forward; None: the whole share of a process.

    Raises:
        RuntimeError: instead of torch's error.
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
    """The first line of an error's text; the name of its class where it has none, as Python's own MemoryError."""
    return str(error).partition("\n")[0] or type(error).__name__
