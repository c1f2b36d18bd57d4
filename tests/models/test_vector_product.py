"""A matrix multiplies one vector as it is, on either maker's processors, as a copy of it would."""

import platform
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from zoo import create_model
from zoo.models.generation import product, vector
from zoo.models.generation.fast import fast_generation, logits_of
from zoo.models.generation.generate import generate
from zoo.models.generation.product import Product, SharedProduct
from zoo.models.generation.reordered import reordered_matrices
from zoo.models.generation.settings import GenerateSettings
from zoo.models.generation.vector import PARTS, MatrixInParts, WholeMatrix, vector_product
from zoo.models.generation.vector import processor as processor_of_torch
from zoo.models.heads.head import Head
from zoo.models.heads.scores import Scores

PROCESSORS = {"AMD EPYC": MatrixInParts, "Intel(R) Xeon(R) Processor": WholeMatrix}
WITH_ONEDNN = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch is built without oneDNN here")
KINDS = pytest.mark.parametrize("kind", [MatrixInParts, WholeMatrix])


@KINDS
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("columns", [1, 3, 64])
@pytest.mark.parametrize("rows", [1, 2, PARTS - 1, PARTS, PARTS + 1, 3 * PARTS - 1, 8 * PARTS, 8 * PARTS + 5])
def test_any_number_of_rows_and_columns(rows: int, columns: int, bias: bool, kind: Any) -> None:
    weight, x = torch.randn(rows, columns), torch.randn(1, 1, columns)
    shift = torch.randn(2 * rows)[::2] if bias else None
    exact = F.linear(x.double(), weight.double(), None if shift is None else shift.double())
    multiply = kind(weight, shift)
    assert multiply(x).shape == exact.shape
    torch.testing.assert_close(multiply(x).double(), exact, rtol=1e-5, atol=1e-5)


@KINDS
def test_it_reads_a_matrix_inside_of_another_where_it_stands(kind: Any) -> None:
    whole, x = torch.randn(40, 64), torch.randn(1, 64)
    multiply = kind(whole[7:30], None)
    whole[11] = 0
    assert multiply(x)[0, 4] == 0
    torch.testing.assert_close(multiply(x), x @ whole[7:30].T)


@KINDS
def test_what_is_no_number_stays_where_it_is(kind: Any) -> None:
    weight, x = torch.randn(PARTS + 3, 64), torch.randn(1, 64)
    weight[2, 5], weight[PARTS + 1, 0] = torch.nan, torch.inf
    found = kind(weight, None)(x)[0]
    assert found.isnan().nonzero().flatten().tolist() == [2]
    assert found.isinf().nonzero().flatten().tolist() == [PARTS + 1]


@pytest.fixture(params=[*PROCESSORS, ""])
def processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One without bfloat16; empty: nobody knows it."""
    monkeypatch.setattr(product, "prefers_reordered_float32", lambda: True)
    monkeypatch.setattr(product, "MAX_UNREORDERED", 0)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(vector, "processor", lambda: request.param)
    name: str = request.param
    return name


def test_the_kernel_is_chosen_by_the_maker_of_the_processor(processor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    weight, expected = torch.ones(9, 4), PROCESSORS.get(processor, type(None))
    assert isinstance(vector_product(weight, None), expected)
    assert vector_product(weight.bfloat16(), None) is None
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    assert vector_product(weight, None) is None


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="of x86 alone")
def test_torch_names_the_processor() -> None:
    """Without a name all would be as before, only slower."""
    assert processor_of_torch()


@WITH_ONEDNN
def test_maps_of_one_vector_say_each_its_own(processor: str) -> None:
    maps = [nn.Linear(48, width).requires_grad_(False) for width in (70, 20, 30)]
    shared, x = SharedProduct(*maps), torch.randn(1, 1, 48)
    for number in (1, 2, 0):
        torch.testing.assert_close(shared.forward_of(number)(x), maps[number](x))


@WITH_ONEDNN
def test_an_activation_after_the_product_is_applied_to_one_vector_too(processor: str) -> None:
    linear = nn.Linear(48, 70).requires_grad_(False)
    for x in (torch.randn(1, 48), torch.randn(3, 48)):
        found = Product(linear, after=("gelu", "none"))(x)
        torch.testing.assert_close(found, F.gelu(linear(x)), rtol=1e-5, atol=1e-5)


class Doubling(Head):
    """Scores twice the states."""

    scores_documents = False

    def score(self, states: torch.Tensor, table: torch.Tensor) -> Scores:
        return Scores(2 * states, table)


@WITH_ONEDNN
def test_a_head_scores_what_it_makes_of_the_states_by_the_table_it_is_given(processor: str) -> None:
    head, x = Doubling(), torch.randn(1, 48)
    forward = logits_of(head)
    for table in (torch.randn(20, 48), torch.randn(20, 48)):
        with torch.no_grad():
            torch.testing.assert_close(forward(x, table), 2 * x @ table.T, rtol=1e-5, atol=1e-5)
    narrow = torch.randn(20, 48, dtype=torch.float64)  # no kernel is chosen for it
    assert torch.equal(forward(x.double(), narrow), head(x.double(), narrow))


@WITH_ONEDNN
@pytest.mark.parametrize("prompt", [[1], [1, 5, 7]], ids=["one token", "three"])
def test_text_by_text_reads_the_matrices_themselves(
    prompt: list[int], processor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a prompt of several tokens, or several texts, or a strange processor, have them reordered."""
    torch.manual_seed(0)
    model, multiplied = create_model("gpt2-nano").eval(), []
    with torch.no_grad():
        for weight in model.parameters():
            weight *= 8  # else each token would be the one before
    for kind in (MatrixInParts, WholeMatrix):
        monkeypatch.setattr(kind, "__call__", counted(kind.__call__, multiplied))

    def written(fast: bool) -> list[int]:
        return list(generate(model, [prompt], GenerateSettings(max_new_tokens=6, fast=fast), None)[0].tokens)

    plain, maps = written(fast=False), sum(isinstance(module, nn.Linear) for module in model.modules())
    assert len(set(plain)) > 3
    with fast_generation(model):
        reordered_matrices.clear()
        assert written(fast=True) == plain
    assert bool(reordered_matrices) == (len(prompt) > 1 or not processor)
    steps = 6 - (len(prompt) > 1)  # the head reads only a prompt's last token
    assert len(multiplied) == (maps * steps + 6 if processor else 0)


def counted(call: Any, calls: list[int]) -> Any:
    """The same function, which notes that it was called."""
    return lambda *given: calls.append(1) or call(*given)
