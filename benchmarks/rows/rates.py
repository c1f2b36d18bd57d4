"""The machine's peak rates, measured as sides that take turns with the others, under the same noise."""

import time
from collections.abc import Callable

import torch

from rows.given import Given
from rows.turns import Turn

SECONDS = 1.0  # of one turn, about


def matrix(turn: Turn, given: Given) -> None:
    """Floating point operations per second of large matrix products in the row's precision."""
    n = 8192 if given.device.startswith("cuda") else 2048
    left, right = torch.randn(2, n, n, device=given.device, dtype=given.dtype)
    out = torch.empty(n, n, device=given.device, dtype=given.dtype)
    work(turn, given, lambda: torch.mm(left, right, out=out), 2 * n**3)


def memory(turn: Turn, given: Given) -> None:
    """Bytes per second read by matrix-vector products in the row's precision, with matrices larger than any cache."""
    count, n = (4, 16384) if given.device.startswith("cuda") else (16, 4096)  # a GPU reads 32 MB within one launch
    matrices = torch.randn(count, n, n, device=given.device, dtype=given.dtype)
    vector = torch.randn(n, device=given.device, dtype=given.dtype)

    def read() -> None:
        for one in matrices:
            torch.mv(one, vector)

    work(turn, given, read, matrices.numel() * matrices.element_size())


def work(turn: Turn, given: Given, product: Callable[[], object], units: float) -> None:
    """Take turns of as many products as take about a second."""
    product()
    wait(given.device)
    began = time.perf_counter()
    product()
    wait(given.device)
    count = max(1, round(SECONDS / (time.perf_counter() - began)))
    while True:
        for _ in range(count):
            product()
        turn.done(units * count)


def wait(device: str) -> None:
    """Synchronize with the device."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()
