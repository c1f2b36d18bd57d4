"""A matrix multiplies one vector as it is, on either maker's processors, as a copy of it would."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from zoo import create_model
from zoo.models.generation import packed as packing
from zoo.models.generation import vector
from zoo.models.generation.generate import generate
from zoo.models.generation.laid import known
from zoo.models.generation.packed import packed
from zoo.models.generation.settings import GenerateSettings
from zoo.models.generation.vector import BY_MAKER, PARTS, MatrixInParts, WholeMatrix, vector_product

PROCESSORS = {"AMD": "AMD EPYC", "Intel": "Intel(R) Xeon(R) Processor"}
KINDS = pytest.mark.parametrize("kind", [MatrixInParts, WholeMatrix])


@KINDS
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("columns", [1, 3, 64])
@pytest.mark.parametrize("rows", [1, 2, PARTS - 1, PARTS, PARTS + 1, 3 * PARTS - 1, 8 * PARTS, 8 * PARTS + 5])
def test_any_number_of_rows_and_columns(rows: int, columns: int, bias: bool, kind: Any) -> None:
    weight, x = torch.randn(rows, columns), torch.randn(1, 1, columns)
    shift = torch.randn(2 * rows)[::2] if bias else None
    exact = F.linear(x.double(), weight.double(), None if shift is None else shift.double())
    product = kind(weight, shift)
    assert product(x).shape == exact.shape
    torch.testing.assert_close(product(x).double(), exact, rtol=1e-5, atol=1e-5)


@KINDS
def test_it_reads_a_matrix_inside_of_another_where_it_stands(kind: Any) -> None:
    whole, x = torch.randn(40, 64), torch.randn(1, 64)
    product = kind(whole[7:30], None)
    whole[11] = 0
    assert product(x)[0, 4] == 0
    torch.testing.assert_close(product(x), x @ whole[7:30].T)


@KINDS
def test_what_is_no_number_stays_where_it_is(kind: Any) -> None:
    weight, x = torch.randn(PARTS + 3, 64), torch.randn(1, 64)
    weight[2, 5], weight[PARTS + 1, 0] = torch.nan, torch.inf
    found = kind(weight, None)(x)[0]
    assert found.isnan().nonzero().flatten().tolist() == [2]
    assert found.isinf().nonzero().flatten().tolist() == [PARTS + 1]


@pytest.mark.parametrize("maker", BY_MAKER)
def test_the_kernel_is_chosen_by_the_maker_of_the_processor(maker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.ones(9, 4)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(vector, "processor", lambda: PROCESSORS[maker])
    assert isinstance(vector_product(weight, None), BY_MAKER[maker])
    assert vector_product(weight.bfloat16(), None) is None
    monkeypatch.setattr(vector, "processor", lambda: "")
    assert vector_product(weight, None) is None
    monkeypatch.setattr(vector, "processor", lambda: PROCESSORS[maker])
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    assert vector_product(weight, None) is None


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch is built without oneDNN here")
@pytest.mark.parametrize("maker", [*BY_MAKER, ""])
@pytest.mark.parametrize("prompt", [[1], [1, 5, 7]], ids=["one token", "three"])
def test_text_by_text_reads_the_matrices_themselves(
    prompt: list[int], maker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a prompt of several tokens, or several texts, or a strange processor, have them laid out."""
    monkeypatch.setattr(packing, "packs_float32", lambda: True)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(vector, "processor", lambda: PROCESSORS.get(maker, maker))
    model, multiplied = create_model("gpt2-nano").eval(), []
    for kind in BY_MAKER.values():
        monkeypatch.setattr(kind, "__call__", counted(kind.__call__, multiplied))

    def written(fast: bool) -> list[int]:
        return list(generate(model, [prompt], GenerateSettings(max_new_tokens=6, fast=fast), None)[0].tokens)

    plain, maps = written(fast=False), sum(isinstance(module, nn.Linear) for module in model.modules())
    with packed(model):
        known.clear()
        assert written(fast=True) == plain
    assert bool(known) == (len(prompt) > 1 or not maker)
    steps = 6 - (len(prompt) > 1)  # the head reads only a prompt's last token
    assert len(multiplied) == (maps * steps + 6 if maker else 0)


def counted(call: Any, calls: list[int]) -> Any:
    """The same function, which notes that it was called."""
    return lambda *given: calls.append(1) or call(*given)
