"""The machine's peak rates, measured as sides that take turns with the others, under the same noise."""

import time
from collections.abc import Callable

import torch

from rows.side_args import SideArgs
from rows.side_process import TurnReporter

TURN_SECONDS = 1.0  # approximate


def flops(reporter: TurnReporter, args: SideArgs) -> None:
    """Floating point operations per second of large matrix products in the row's precision."""
    n = 8192 if args.device.startswith("cuda") else 2048
    left, right = torch.randn(2, n, n, device=args.device, dtype=args.dtype)
    out = torch.empty(n, n, device=args.device, dtype=args.dtype)
    repeat_product(reporter, args, lambda: torch.mm(left, right, out=out), 2 * n**3)


def bandwidth(reporter: TurnReporter, args: SideArgs) -> None:
    """Bytes per second read by matrix-vector products in the row's precision, with matrices larger than any cache."""
    count, n = (4, 16384) if args.device.startswith("cuda") else (16, 4096)  # a GPU reads 32 MB within one launch
    matrices = torch.randn(count, n, n, device=args.device, dtype=args.dtype)
    vector = torch.randn(n, device=args.device, dtype=args.dtype)

    def read() -> None:
        for matrix in matrices:
            torch.mv(matrix, vector)

    repeat_product(reporter, args, read, matrices.numel() * matrices.element_size())


def repeat_product(reporter: TurnReporter, args: SideArgs, product: Callable[[], object], units: float) -> None:
    """Take turns of as many products as fit in about a second.

    Args:
        units: floating point operations, or bytes read, of one product.
    """
    product()
    synchronize(args.device)
    began = time.perf_counter()
    product()
    synchronize(args.device)
    count = max(1, round(TURN_SECONDS / (time.perf_counter() - began)))
    while True:
        for _ in range(count):
            product()
        reporter.report(units * count)


def synchronize(device: str) -> None:
    """Wait until a GPU has finished all its work."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()
