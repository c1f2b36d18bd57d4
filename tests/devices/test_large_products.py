"""Products of large matrices on a CPU with AMX, pretended where there is none: the same numbers in another order."""

import pytest
import torch
from torch import Tensor

from zoo.devices import large_products
from zoo.devices.large_products import is_slow_gradient, linear_in_blocks, waits_for_memory, write_weight_gradient_


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices of these tests count as large, and the CPU has AMX."""
    for name, value in {"LARGE_WEIGHT": 1, "MANY_ROWS": 1, "LARGE_OUTPUT": 1, "STRIP": 4, "BLOCK": 5}.items():
        monkeypatch.setattr(large_products, name, value)
    monkeypatch.setattr(large_products, "has_amx", lambda: True)


def integers(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Small integers: their products and sums are exact."""
    return torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


@pytest.mark.parametrize("wide", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize(("n", "width"), [(3, 10), (10, 3), (7, 7)])
def test_a_weights_gradient_is_the_product(n: int, width: int, add: bool, wide: torch.dtype):
    gradients, states, total = integers(9, n), integers(9, width), integers(n, width, dtype=wide)
    before = total.clone() if add else torch.zeros_like(total)
    write_weight_gradient_(total, gradients, states, add)
    assert torch.equal(total.double(), before.double() + gradients.double().T @ states.double())


def test_the_left_matrix_of_no_large_product_is_read_transposed(monkeypatch: pytest.MonkeyPatch):
    read: list[bool] = []
    product = Tensor.__matmul__

    def watched(left: Tensor, right: Tensor) -> Tensor:
        read.append(left.is_contiguous())
        return product(left, right)

    monkeypatch.setattr(Tensor, "__matmul__", watched)
    for n, width in ((3, 10), (10, 3)):
        write_weight_gradient_(torch.empty(n, width), integers(9, n), integers(9, width))
    assert read == [True, True]


@pytest.mark.parametrize("bias", [None, integers(13)], ids=["no bias", "bias"])
@pytest.mark.parametrize("n", [13, 10, 5, 2])
def test_a_linear_layer_in_blocks_is_the_whole_one(n: int, bias: Tensor | None):
    x, weight = integers(4, 6), integers(n, 6)
    given = None if bias is None else bias[:n]
    expected = x.double() @ weight.double().T + (0 if given is None else given.double())
    assert torch.equal(linear_in_blocks(x, weight, given).double(), expected)


def test_only_bfloat16_on_a_cpu_with_amx_is_laid_out(monkeypatch: pytest.MonkeyPatch):
    here, elsewhere = torch.device("cpu"), torch.device("meta")
    assert waits_for_memory(here, torch.bfloat16) and is_slow_gradient(1, 2, here, torch.bfloat16)
    assert not waits_for_memory(here, torch.float32) and not waits_for_memory(elsewhere, torch.bfloat16)
    monkeypatch.setattr(large_products, "MANY_ROWS", 2)
    assert not is_slow_gradient(1, 2, here, torch.bfloat16) and not is_slow_gradient(2, 1, here, torch.bfloat16)
    for place, name, value in ((torch, "get_num_threads", 5), (torch.compiler, "is_compiling", True)):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, lambda value=value: value)
            assert not waits_for_memory(here, torch.bfloat16)
    monkeypatch.setattr(large_products, "has_amx", lambda: False)
    assert not waits_for_memory(here, torch.bfloat16)
