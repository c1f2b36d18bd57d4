"""Which kernels backend `varlen` takes for which rows; that each is right is tested with the backends' contract."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from attending import varlen_formula
from zoo.blocks.backends.backend import Rule
from zoo.blocks.backends.varlen import Varlen
from zoo.blocks.rows.documents import Documents
from zoo.blocks.rows.view import View, Visibility
from zoo.blocks.score import scores

NO_MASK, MASK, FLASH = "no mask", "mask", "flash attention over documents"


def packed(rows: list[list[int]], length: int) -> Documents:
    numbers = [[k for k, n in enumerate(row, 1) for _ in range(n)] + [0] * (length - sum(row)) for row in rows]
    return Documents.packed(rows, torch.tensor(numbers))


SHORT, FEW, FAR = packed([[2, 2, 2, 2], [1, 3, 2]], 8), packed([[5, 3], [8]], 8), packed([[75] * 4, [75] * 3], 300)
WHOLE, LONGER = packed([[8], [8]], 8), packed([[12], [12]], 12)
MANY = packed([[6] * 22, [6] * 20], 136)  # of more positions than a CPU reads in float32
CASES: dict[str, tuple[tuple[Documents, Documents], dict[str, Any], str]] = {
    "whole rows": ((WHOLE, WHOLE), {}, NO_MASK),
    "of heads of any width": ((WHOLE, WHOLE), {"widths": (5, 3)}, NO_MASK),
    "of wide heads": ((WHOLE, WHOLE), {"widths": (129, 8)}, FLASH),
    "that drop weights": ((WHOLE, WHOLE), {"dropout": 0.1}, FLASH),
    "with a window": ((WHOLE, WHOLE), {"window": 3}, FLASH),
    "that learn nothing": ((WHOLE, WHOLE), {"learns": False}, FLASH),
    "with fewer queries than keys": ((WHOLE, LONGER), {}, FLASH),
    "with fewer queries than keys, all of which they see": ((WHOLE, LONGER), {"causal": False}, NO_MASK),
    "of few documents": ((FEW, FEW), {}, FLASH),
    "of short documents": ((SHORT, SHORT), {}, MASK),
    "of short documents with a window": ((SHORT, SHORT), {"window": 3, "widths": (5, 3)}, MASK),
    "of short documents that read long ones": ((SHORT, FAR), {"causal": False}, FLASH),
    "of long documents that read short ones": ((FAR, SHORT), {"causal": False}, FLASH),
}


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, torch.dtype]]:
    """The kernels that are called, and the dtype of their queries."""
    found: list[tuple[str, torch.dtype]] = []

    def noting(kernel: Callable[..., Any], name: str | None) -> Callable[..., Any]:
        def run(queries: Tensor, keys: Tensor, values: Tensor, mask: Any = None, *given: Any, **named: Any) -> Any:
            found.append((name or (NO_MASK if mask is None else MASK), queries.dtype))
            return kernel(queries, keys, values, mask, *given, **named)

        return run

    monkeypatch.setattr(F, "scaled_dot_product_attention", noting(F.scaled_dot_product_attention, None))
    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", noting(varlen_formula, FLASH))
    return found


def attend(
    sides: tuple[Documents, Documents],
    widths: tuple[int, int] = (8, 8),
    dropout: float = 0.0,
    window: int | None = None,
    causal: bool = True,
    learns: bool = True,
) -> Tensor:
    (rows, length), n_keys = sides[0].numbers.shape, sides[1].numbers.shape[1]
    given = [
        torch.randn(rows, 2, n, width) for n, width in zip((length, n_keys, n_keys), (widths[0], *widths), strict=True)
    ]
    view = View(Visibility(*sides, causal=causal))
    rule = Rule(scores.build("scaled_dot", widths[0], widths[0]), window, None, dropout)
    with torch.set_grad_enabled(learns):
        Varlen().prepare(view, rule, torch.float32)
        return Varlen().attend(*given, view, rule)


@pytest.mark.parametrize(("sides", "changes", "kernel"), CASES.values(), ids=CASES)
def test_each_kind_of_rows_meets_its_kernel(
    sides: tuple[Documents, Documents], changes: dict[str, Any], kernel: str, used: list[tuple[str, torch.dtype]]
):
    said = attend(sides, **changes)
    assert used == [(kernel, torch.float32)] and said.shape[-1] == changes.get("widths", (8, 8))[1]


@pytest.mark.parametrize("documents", [WHOLE, MANY, FEW], ids=["whole", "short", "few"])
def test_every_kernel_computes_in_the_precision_of_the_products(
    documents: Documents, used: list[tuple[str, torch.dtype]]
):
    with torch.autocast("cpu", torch.bfloat16):
        attend((documents, documents), causal=False)
    assert used == [({WHOLE: NO_MASK, MANY: MASK, FEW: FLASH}[documents], torch.bfloat16)]


@pytest.mark.parametrize(
    ("documents", "length", "prefers_mask"), [(2, 128, False), (3, 128, True), (8, 129, False), (9, 129, True)]
)
def test_rows_with_more_than_two_documents_per_tile_prefer_a_mask(documents: int, length: int, prefers_mask: bool):
    numbers = torch.ones(2, length, dtype=torch.long)
    assert Documents.packed([[4] * documents] * 2, numbers).prefers_mask == prefers_mask
    assert not Documents(numbers).prefers_mask and not Documents(numbers, whole=True).prefers_mask


@pytest.mark.parametrize(("rows", "prefers_mask"), [(6, False), (7, True)])
def test_more_documents_than_a_launch_takes_prefer_a_mask(
    rows: int, prefers_mask: bool, monkeypatch: pytest.MonkeyPatch
):
    """CUDA refuses such a launch ("invalid configuration argument"). Two borders come to the documents of each row."""
    monkeypatch.setattr("zoo.blocks.rows.documents.MAX_DOCUMENTS", 60)
    laid = packed([[4] * 8] * rows, 256)
    assert laid.prefers_mask == prefers_mask == (len(laid.borders.keys) - 1 > 60)


def test_what_is_read_of_short_documents_is_prepared_for_all_layers(used: list[tuple[str, torch.dtype]]):
    view = View(Visibility(SHORT, SHORT, causal=True))
    rule = Rule(scores.build("scaled_dot", 8, 8), None, None, 0.0)
    Varlen().prepare(view, rule, torch.float32)
    assert ("additive_mask", None, torch.float32) in view.cache and "ends" not in view.visibility.cache
