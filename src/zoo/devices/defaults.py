"""Contexts that shield zoo from global torch settings of the caller, such as default device and TF32."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Lock, get_ident

import torch

BACKENDS = (torch.backends.mkldnn.matmul, torch.backends.cuda.matmul)  # type: ignore[attr-defined]
HIGHEST = "highest"  # torch's name for full float32 precision in matrix products
UNROUNDED = ("ieee", "none")  # values of a backend's fp32_precision that keep full float32; none: torch's default


@dataclass
class Shared:
    """What the threads inside `exact_products` share.

    Args:
        inside: their numbers, one for each context that a thread is in.
        to_call: what the last one to leave calls.
    """

    lock: Lock = field(default_factory=Lock)
    inside: list[int] = field(default_factory=list)
    to_call: list[Callable[[], None]] = field(default_factory=list)

    def restore(self) -> None:
        """Restore torch's settings if no thread is inside."""
        if not self.inside:
            for restore in self.to_call:  # in the order of entering: what a caller has set since then is last
                restore()
            self.to_call.clear()


shared = Shared()


def start_fork() -> None:
    """Prepare a forked process: other threads are not in it, so none would release the lock, or restore settings."""
    shared.lock = Lock()
    shared.inside = [thread for thread in shared.inside if thread == get_ident()]
    shared.restore()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=start_fork)


@contextmanager
def default_torch_settings() -> Iterator[None]:
    """Context with torch's usual defaults: new tensors on the CPU, no inference mode, exact float32 matrix products.

    A notebook may have called `torch.set_default_device`, but zoo builds small tensors on the CPU and copies them from
    pinned memory. Tensors made under `torch.inference_mode` have no version counter, which caching copies of weights
    relies on.
    """
    with ExitStack() as stack:
        if torch.get_default_device().type != "cpu":  # only if needed: a device mode slows every torch call
            stack.enter_context(torch.device("cpu"))
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        stack.enter_context(exact_products())
        yield


@contextmanager
def exact_products() -> Iterator[None]:
    """Context in which float32 matrix products are exact, whatever `torch.set_float32_matmul_precision` was set to.

    With "medium", which is common in notebooks, CPUs and GPUs with bfloat16 hardware keep 8 to 11 of 24 bits. torch's
    settings are the whole process's: of threads that are inside at once, the last one to leave restores them.
    """
    thread = get_ident()
    with shared.lock:
        if (restore := make_exact()) is not None:
            shared.to_call.append(restore)
        shared.inside.append(thread)
    try:
        yield
    finally:
        with shared.lock:
            shared.inside.remove(thread)
            shared.restore()


def make_exact() -> Callable[[], None] | None:
    """Make float32 matrix products exact; returns a function that restores the settings; None if they were exact."""
    before = [(backend, backend.fp32_precision) for backend in BACKENDS]
    rough = [(backend, precision) for backend, precision in before if precision not in UNROUNDED]
    try:
        precision = torch.get_float32_matmul_precision()
    except RuntimeError:  # precision was set per backend, and torch forbids mixing that with the global setting
        precision = HIGHEST
    if precision == HIGHEST and not rough:
        return None
    # change the settings through the same API that they were made with
    if precision != HIGHEST:
        torch.set_float32_matmul_precision(HIGHEST)
    else:
        for backend, _ in rough:
            backend.fp32_precision = UNROUNDED[0]

    def restore() -> None:
        if precision != HIGHEST:
            torch.set_float32_matmul_precision(precision)
        # restore each backend too: torch.backends.cuda.matmul.allow_tf32 sets one, but shows in the global precision
        for backend, found in before if precision != HIGHEST else rough:
            backend.fp32_precision = found

    return restore
