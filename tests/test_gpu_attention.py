"""The benchmark of attention's kernels: its rows, and that its kernels compute the same."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from programs import load_program


@pytest.fixture
def program() -> Any:
    return load_program("benchmarks/gpu_attention.py")


def test_documents_fill_their_rows(program: Any):
    rows = program.PackedRows.random(5, 40, 2, True, 3, 9)
    assert all(3 <= n <= 9 for row in rows.documents for n in row) and not rows.single_document
    filled = rows.lengths_with_rest()
    assert all(sum(row) == 40 and 40 - sum(found) < 3 for row, found in zip(filled, rows.documents, strict=True))
    numbers, mask = rows.document_numbers("cpu"), rows.mask("cpu")
    assert numbers.shape == (5, 40) and mask[0, 1, 0] == (rows.documents[0][0] > 1) and not mask[0, 0, 1]
    assert mask.sum((1, 2)).tolist() == [sum(n * (n + 1) // 2 for n in row) for row in filled]
    assert [kind for kind, one in program.KINDS.items() if one.single_document] == ["gpt2", "bert, whole"]


def test_kernels_of_whole_rows_agree(program: Any, capsys: pytest.CaptureFixture[str]):
    first, second = program.compare_kernels(program.PackedRows(16, 2, True, [[16]] * 2), "cpu", 1)
    assert first.startswith("flash, no mask") and first.endswith("off by 0.0000")
    assert second.startswith("math, mask") and float(second.split("off by ")[1]) < 0.01


def test_a_kernel_that_fails_is_named(program: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(program, "kernel_builders", lambda rows, device: {"bad": lambda: 1 / 0})
    (line,) = program.compare_kernels(program.PackedRows(4, 1, False, [[4]]), "cpu", 1)
    assert line == "bad                failed: division by zero"


def test_flex_is_compiled_for_the_shape_of_each_kind_of_rows(program: Any, monkeypatch: pytest.MonkeyPatch):
    compile_, shapes = torch.compile, list[bool]()

    def note(graph: torch.fx.GraphModule, given: list[Any]) -> Callable[..., Any]:
        shapes.append(all(isinstance(one, torch.Tensor) for one in given))  # else sizes are given, too
        return graph.forward

    def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        return compile_(function, backend=note, **options) if options else function

    monkeypatch.setattr(torch, "compile", compiled)
    monkeypatch.setattr(program, "KERNEL", None)  # of a GPU
    for length in (16, 32):
        rows = program.PackedRows(length, 2, True, [[length]] * 2)
        q = torch.zeros(2, length, 2, program.D_KEY)
        assert program.flex(rows, "cpu")(q, q, q).shape == q.shape
    assert shapes == [True, True]
