"""What do `training.fast_layers` and the head's layouts gain on this CPU? Their operators beside torch's, in turns.

    python benchmarks/fast_layers.py [--rows 2048] [--width 768] [--inner 3072] [--classes 50257] [--repeats 15]

Printed: the median milliseconds of each operator of a GPT-2 block and head in bfloat16, and of torch's. Without AMX,
both are the same.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from zoo.devices.large_products import linear_in_blocks, write_weight_gradient_
from zoo.devices.memory import keep_large_blocks

WARM_UP = 2
Operator = Callable[[], Tensor]


def operators(rows: int, width: int, inner: int, classes: int) -> dict[str, tuple[Operator, Operator]]:
    """By name, an operator as zoo computes it and as torch does."""
    narrow, wide, logits = (torch.randn(rows, n, dtype=torch.bfloat16) for n in (width, inner, classes))
    weight = torch.randn(classes, width, dtype=torch.bfloat16)
    return {
        f"gradient of a {inner} x {width} weight": gradient(wide, narrow),
        f"gradient of a {width} x {inner} weight": gradient(narrow, wide),
        f"gradient of a {classes} x {width} weight": gradient(logits, narrow),
        f"{rows} x {classes} logits": (lambda: linear_in_blocks(narrow, weight, None), lambda: narrow @ weight.T),
    }


def gradient(gradients: Tensor, states: Tensor) -> tuple[Operator, Operator]:
    """The gradient of a weight in float32, as the optimizer reads it."""
    total = torch.empty(gradients.shape[1], states.shape[1])

    def ours() -> Tensor:
        write_weight_gradient_(total, gradients, states)
        return total

    return ours, lambda: total.copy_(gradients.T @ states)


def milliseconds(pair: tuple[Operator, Operator], repeats: int) -> list[float]:
    """The median time of each of two operators, which take turns."""
    times: list[list[float]] = [[], []]
    for _ in range(WARM_UP + repeats):
        for operator, taken in zip(pair, times, strict=True):
            began = time.perf_counter()
            operator()
            taken.append(1000 * (time.perf_counter() - began))
    return [statistics.median(taken[WARM_UP:]) for taken in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"rows": 2048, "width": 768, "inner": 3072, "classes": 50257, "repeats": 15}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    keep_large_blocks()  # as training does
    table = Table("operator", "zoo, ms", "torch, ms", "ratio")
    sizes = options.rows, options.width, options.inner, options.classes
    for name, pair in operators(*sizes).items():
        ours, theirs = milliseconds(pair, options.repeats)
        table.add_row(name, f"{ours:.2f}", f"{theirs:.2f}", f"{theirs / ours:.2f}x")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
