"""What the machine can do, as sides of their own: they take their turns among the others, so noise meets them, too."""

import time
from collections.abc import Callable

import torch

from rows.given import Given
from rows.turns import Turn

SECONDS = 1.0  # of one turn, about


def matrix(turn: Turn, given: Given) -> None:
    """Floating point operations of large matrix products in the precision of the row."""
    n = 8192 if given.device.startswith("cuda") else 2048
    left, right = torch.randn(2, n, n, device=given.device, dtype=given.dtype)
    out = torch.empty(n, n, device=given.device, dtype=given.dtype)
    work(turn, given, lambda: torch.mm(left, right, out=out), 2 * n**3)


def memory(turn: Turn, given: Given) -> None:
    """Bytes read by products of a matrix and a vector in the row's precision, with matrices that no cache holds."""
    count, n = (4, 16384) if given.device.startswith("cuda") else (16, 4096)  # a GPU reads 32 MB while Python asks
    matrices = torch.randn(count, n, n, device=given.device, dtype=given.dtype)
    vector = torch.randn(n, device=given.device, dtype=given.dtype)

    def read() -> None:
        for one in matrices:
            torch.mv(one, vector)

    work(turn, given, read, matrices.numel() * matrices.element_size())


def work(turn: Turn, given: Given, product: Callable[[], object], units: float) -> None:
    """Turns of as many products as take about a second; the first ones warm up."""
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
    """Until the device has done what it was told."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()
