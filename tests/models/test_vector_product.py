"""A matrix multiplies one vector in parts as it does whole."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from zoo import create_model
from zoo.models.generation import packed as packing
from zoo.models.generation.generate import generate
from zoo.models.generation.laid import known
from zoo.models.generation.packed import packed
from zoo.models.generation.settings import GenerateSettings
from zoo.models.generation.vector import PARTS, VectorProduct


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("columns", [1, 3, 64])
@pytest.mark.parametrize("rows", [1, 2, PARTS - 1, PARTS, PARTS + 1, 3 * PARTS - 1, 8 * PARTS, 8 * PARTS + 5])
def test_any_number_of_rows_and_columns(rows: int, columns: int, bias: bool) -> None:
    weight, x = torch.randn(rows, columns), torch.randn(1, 1, columns)
    shift = torch.randn(2 * rows)[::2] if bias else None
    exact = F.linear(x.double(), weight.double(), None if shift is None else shift.double())
    product = VectorProduct(weight, shift)
    assert product(x).shape == exact.shape
    torch.testing.assert_close(product(x).double(), exact, rtol=1e-5, atol=1e-5)


def test_it_reads_a_matrix_inside_of_another_where_it_stands() -> None:
    whole, x = torch.randn(40, 64), torch.randn(1, 64)
    product = VectorProduct(whole[7:30], None)
    whole[11] = 0
    assert product(x)[0, 4] == 0
    torch.testing.assert_close(product(x), x @ whole[7:30].T)


def test_what_is_no_number_stays_where_it_is() -> None:
    weight, x = torch.randn(PARTS + 3, 64), torch.randn(1, 64)
    weight[2, 5], weight[PARTS + 1, 0] = torch.nan, torch.inf
    found = VectorProduct(weight, None)(x)[0]
    assert found.isnan().nonzero().flatten().tolist() == [2]
    assert found.isinf().nonzero().flatten().tolist() == [PARTS + 1]


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch is built without oneDNN here")
@pytest.mark.parametrize("prompt", [[1], [1, 5, 7]], ids=["one token", "three"])
def test_text_by_text_reads_the_matrices_themselves(prompt: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a prompt of several tokens, or several texts, have them laid out."""
    monkeypatch.setattr(packing, "packs_float32", lambda: True)
    model = create_model("gpt2-nano").eval()

    def written(fast: bool) -> list[int]:
        return list(generate(model, [prompt], GenerateSettings(max_new_tokens=6, fast=fast), None)[0].tokens)

    plain, multiplied, exact = written(fast=False), [], VectorProduct.__call__
    monkeypatch.setattr(VectorProduct, "__call__", lambda self, x: multiplied.append(1) or exact(self, x))
    with packed(model):
        known.clear()
        assert written(fast=True) == plain
    assert bool(known) == (len(prompt) > 1)
    maps = sum(isinstance(module, nn.Linear) for module in model.modules())
    assert len(multiplied) == maps * (6 - (len(prompt) > 1)) + 6  # the head reads only a prompt's last token
    multiplied.clear()
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    assert written(fast=True) == plain and not multiplied and known
