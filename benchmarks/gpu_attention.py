"""Which attention kernel is the fastest for which rows, on one GPU? Backend `varlen` chooses by these measurements.

    python benchmarks/gpu_attention.py [--rows KIND…] [--repeats 15]

Queries, keys and values are random, in bfloat16. Printed for each kind of rows and each kernel: the median milliseconds
of a forward pass, and of a forward and backward pass; and the relative norm of the difference of output and gradients
from flash attention over documents. `--device cpu` runs the kernels that a CPU has.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from rows.peak_rates import synchronize
from zoo.blocks.backends.flex import KERNEL

D_KEY = 64  # d_key of a head
Kernel = Callable[[Tensor, Tensor, Tensor], Tensor]  # of (rows, length, heads, width)


class PackedRows(NamedTuple):
    """Rows of packed documents.

    Args:
        documents: the lengths of each row's documents; the rest of a row counts as one more document.
    """

    length: int
    heads: int
    causal: bool
    documents: list[list[int]]

    @staticmethod
    def random(count: int, length: int, heads: int, causal: bool, min_length: int, max_length: int) -> "PackedRows":
        """Random rows: as many documents of `min_length` to `max_length` tokens as fit, from a fixed seed."""
        generator = random.Random(0)
        documents: list[list[int]] = []
        for _ in range(count):
            row, remaining = list[int](), length
            while remaining >= min_length:
                row.append(min(remaining, generator.randint(min_length, max_length)))
                remaining -= row[-1]
            documents.append(row)
        return PackedRows(length, heads, causal, documents)

    @property
    def single_document(self) -> bool:
        """Whether each row is one document that fills it."""
        return all(row == [self.length] for row in self.documents)

    def lengths_with_rest(self) -> list[list[int]]:
        """The lengths of the documents of each row, with the rest of the row as one more."""
        return [[n for n in (*row, self.length - sum(row)) if n] for row in self.documents]

    def document_numbers(self, device: str) -> Tensor:
        """The document number of each position, (rows, length)."""
        rows = [[k for k, n in enumerate(row, 1) for _ in range(n)] for row in self.lengths_with_rest()]
        return torch.tensor(rows, device=device)

    def mask(self, device: str) -> Tensor:
        """The mask, (rows, queries, keys): True means "may attend"."""
        numbers = self.document_numbers(device)
        same = numbers[:, :, None] == numbers[:, None, :]
        return same.tril() if self.causal else same


KINDS = {
    "gpt2": PackedRows(1024, 12, True, [[1024]] * 16),
    "bert, whole": PackedRows(512, 12, False, [[512]] * 58),
    "bert": PackedRows.random(58, 512, 12, False, 300, 460),
    "articles": PackedRows.random(16, 1024, 12, True, 60, 600),
    "pairs": PackedRows.random(240, 128, 8, False, 8, 24),
    "pairs, causal": PackedRows.random(240, 128, 8, True, 8, 24),
    "256, 30 to 60": PackedRows.random(116, 256, 12, False, 30, 60),
    "512, 30 to 60": PackedRows.random(58, 512, 12, False, 30, 60),
    "512, 60 to 120": PackedRows.random(58, 512, 12, False, 60, 120),
}


def flash_varlen(rows: PackedRows, device: str) -> Kernel:
    """Variable-length flash attention over the documents of all rows."""
    lengths = [n for row in rows.lengths_with_rest() for n in row]
    ends = torch.tensor([0, *lengths]).cumsum(0).int().to(device)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        right_window = 0 if rows.causal else -1
        inputs = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), ends, ends, rows.length, rows.length, 0.0
        options = {"scale": D_KEY**-0.5, "window_size_left": -1, "window_size_right": right_window}
        output, *_ = torch.ops.aten._flash_attention_forward(*inputs, rows.causal, False, **options)
        return output.view(q.shape)

    return attend


def sdpa(kind: SDPBackend, causal: bool, mask: Tensor | None) -> Kernel:
    """Attention by one kernel of scaled_dot_product_attention."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        with sdpa_kernel([kind]):
            return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal and mask is None).transpose(1, 2)

    return attend


def flex(rows: PackedRows, device: str) -> Kernel:
    """Flex attention, compiled for the rows' mask."""
    numbers, causal = rows.document_numbers(device), rows.causal

    def may_attend(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        same = numbers[row, query] == numbers[row, key]
        return same & (query >= key) if causal else same

    # without this, torch compiles for dynamic shapes from the second kind of rows on, unlike in training, and stops
    # compiling after eight
    torch._dynamo.reset()
    blocks = torch.compile(create_block_mask)(may_attend, len(numbers), None, rows.length, rows.length, device=device)
    compiled = torch.compile(flex_attention, fullgraph=True)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return compiled(q, k, v, block_mask=blocks, kernel_options=KERNEL).transpose(1, 2)

    return attend


def kernel_builders(rows: PackedRows, device: str) -> dict[str, Callable[[], Kernel]]:
    """Name -> function that builds a kernel able to compute the rows; the others are compared with the first."""

    def masked(kind: SDPBackend) -> Kernel:
        mask = rows.mask(device)[:, None]
        bias = torch.zeros(mask.shape, device=device, dtype=torch.bfloat16).masked_fill_(~mask, -torch.inf)
        return sdpa(kind, rows.causal, bias)

    builders: dict[str, Callable[[], Kernel]] = {}
    if device != "cpu":
        builders["flash, documents"] = lambda: flash_varlen(rows, device)
    if rows.single_document:
        kinds = [SDPBackend.FLASH_ATTENTION] + ([SDPBackend.CUDNN_ATTENTION] if device != "cpu" else [])
        for kind in kinds:
            name = f"{kind.name.removesuffix('_ATTENTION').lower()}, no mask"
            builders[name] = lambda kind=kind: sdpa(kind, rows.causal, None)  # type: ignore[misc]
    if device == "cpu":
        builders["math, mask"] = lambda: masked(SDPBackend.MATH)
    else:
        builders["efficient, mask"] = lambda: masked(SDPBackend.EFFICIENT_ATTENTION)
        builders["flex"] = lambda: flex(rows, device)
    return builders


def median_milliseconds(function: Callable[[], object], device: str, repeats: int) -> float:
    """The median time of a function, after a warm-up."""
    times = []
    for number in range(3 + repeats):
        synchronize(device)
        began = time.perf_counter()
        function()
        synchronize(device)
        times.append(1000 * (time.perf_counter() - began) if number >= 3 else 0.0)
    return statistics.median(times[3:])


def compare_kernels(rows: PackedRows, device: str, repeats: int) -> list[str]:
    """Measure all kernels; returns a line for each, with the error of one that fails."""
    shape, lines, reference = (len(rows.documents), rows.length, rows.heads, D_KEY), list[str](), list[Tensor]()
    generator = torch.Generator(device).manual_seed(0)
    q, k, v, gradient = (torch.randn(shape, generator=generator, device=device, dtype=torch.bfloat16) for _ in range(4))
    inputs = [x.requires_grad_() for x in (q, k, v)]
    for name, build in kernel_builders(rows, device).items():
        try:
            kernel = build()

            def forward(kernel: Kernel = kernel) -> None:
                with torch.no_grad():
                    kernel(q, k, v)

            def forward_backward(kernel: Kernel = kernel) -> list[Tensor]:
                output = kernel(q, k, v)
                return [output.detach(), *torch.autograd.grad(output, inputs, gradient)]

            times = [median_milliseconds(function, device, repeats) for function in (forward, forward_backward)]
            results = [x.float() for x in forward_backward()]
            reference = reference or results
            difference = max(float((a - b).norm() / b.norm()) for a, b in zip(results, reference, strict=True))
            lines.append(f"{name:18} {times[0]:8.3f} ms {times[1]:8.3f} ms  off by {difference:.4f}")
        except Exception as error:  # go on: the other kernels may work
            lines.append(f"{name:18} failed: {str(error).partition(chr(10))[0][:150]}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=KINDS, metavar="KIND", help=f"of {', '.join(KINDS)}; default: all")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    if options.device != "cpu" and not torch.cuda.is_available():
        parser.error("there is no GPU here; --device cpu shows that this program works")
    print(
        torch.cuda.get_device_name(options.device) if options.device != "cpu" else "a CPU", f"torch {torch.__version__}"
    )
    for kind in options.rows or KINDS:
        print(f"\n{kind}", flush=True)
        print("\n".join(compare_kernels(KINDS[kind], options.device, options.repeats)), flush=True)


if __name__ == "__main__":
    main()
