"""How a head's loss is cut into chunks, how their logits lie, and which of it a kernel does."""

from typing import Any

import pytest
import torch
from head_inputs import CLASSES, WIDTH, given
from torch import Tensor

from zoo.devices import compiling
from zoo.models.heads import cross_entropy as cross_entropy_module
from zoo.models.heads.scores import Scores


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The few classes of these tests count as many."""
    monkeypatch.setattr(cross_entropy_module, "FEW", CLASSES)


@pytest.mark.parametrize("aligned", [1, 8])
def test_no_tensor_of_all_logits_is_made(aligned: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cross_entropy_module, "ALIGNED_ON_CPU", aligned)
    monkeypatch.setattr(
        cross_entropy_module, "LOGITS_ON_CPU", 3 * cross_entropy_module.aligned_classes(CLASSES, torch.device("cpu"))
    )
    sizes: list[int] = []
    score = cross_entropy_module.score_chunk_

    def measured(logits: Tensor, *others: object) -> None:
        sizes.append(len(logits))
        score(logits, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(cross_entropy_module, "score_chunk_", measured)
    one = given()
    one.scores.cross_entropy(one.targets)
    assert sizes == [3] * 5


def test_rows_of_logits_begin_at_even_addresses_where_products_want_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cross_entropy_module, "ALIGNED_ON_CPU", 8)
    begins = set()
    score = cross_entropy_module.score_chunk_

    def measured(logits: Tensor, *others: object) -> None:
        begins.add((logits.shape[1], logits.stride(0), others[0]))
        score(logits, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(cross_entropy_module, "score_chunk_", measured)
    one = given()
    one.scores.cross_entropy(one.targets).sum.backward()
    assert begins == {(16, 16, CLASSES)} and one.weight.grad is not None and one.weight.grad.shape == one.weight.shape
    assert (
        cross_entropy_module.aligned_classes(50257, torch.device("cuda")) == 50304
        and cross_entropy_module.aligned_classes(2, torch.device("cuda")) == 2
    )


@pytest.mark.parametrize("bias", [None, torch.ones(CLASSES)], ids=["no bias", "bias"])
def test_room_for_no_class_gives_infinite_states_no_gradient(bias: Tensor | None, monkeypatch: pytest.MonkeyPatch):
    """Beside a weight that is frozen: that of another one is not finite then."""
    monkeypatch.setattr(cross_entropy_module, "ALIGNED_ON_CPU", 8)
    states = torch.full((2, WIDTH), torch.inf, requires_grad=True)
    Scores(states, torch.ones(CLASSES, WIDTH), bias).cross_entropy(torch.tensor([-1, -1])).sum.backward()
    assert states.grad is not None and not states.grad.any()


def test_all_rows_are_one_chunk_where_a_sum_over_chunks_takes_as_much_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cross_entropy_module, "LOGITS_ON_CPU", 2 * CLASSES)
    weight = torch.zeros(CLASSES, WIDTH, dtype=torch.bfloat16)

    def counted(rows: int, dtype: torch.dtype = torch.bfloat16, summed: bool = True) -> int:
        wanted = cross_entropy_module.LossOptions(dtype, label_smoothing=0.0, guess=False, gradient=summed)
        return len(cross_entropy_module.chunks(wanted, rows, weight.to(dtype), summed))

    assert counted(2 + 2 * WIDTH) == 1  # 20 bytes a class, and 16 less for the gradient of the weight
    assert counted(2 + 2 * WIDTH + 1) == 6
    assert counted(2 + 2 * WIDTH, torch.float32) == counted(2 + 2 * WIDTH, summed=False) == 5


def test_in_float16_the_gradient_of_many_rows_is_larger_than_float16(monkeypatch: pytest.MonkeyPatch):
    """It waits for the backward pass, where the loss is divided by its count and scaled: only then it is small."""
    monkeypatch.setattr(cross_entropy_module, "ROWS_IN_FLOAT16", 1000)
    rows, size = 3000, 32.0
    states = torch.full((rows, WIDTH), size, dtype=torch.float16, requires_grad=True)
    weight = torch.zeros(CLASSES, WIDTH, requires_grad=True)
    targets = torch.zeros(rows, dtype=torch.long)
    with torch.autocast("cpu", torch.float16):
        Scores(states, weight, None).cross_entropy(targets).sum.backward()
    assert weight.grad is not None
    right = rows * size * (1 / CLASSES - 1)
    assert right < -torch.finfo(torch.float16).max
    torch.testing.assert_close(weight.grad[0], torch.full((WIDTH,), right), rtol=1e-3, atol=0)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What a kernel is told in place of Triton's; it computes by torch's operators."""
    told: list[tuple[Any, ...]] = []

    def score_(logits: Tensor, classes: int, targets: Tensor, *options: Any) -> Any:
        told.append((tuple(logits.shape), classes, *options))
        wanted = cross_entropy_module.LossOptions(logits.dtype, options[0], options[1], options[2])
        return cross_entropy_module.score_in_parts_(logits, classes, targets, wanted)[0][1]

    monkeypatch.setattr(cross_entropy_module, "has_kernel", lambda device: True)
    monkeypatch.setattr(
        cross_entropy_module, "import_object", lambda place: {"zoo.devices.logits_kernel:cross_entropy_": score_}[place]
    )
    return told


@pytest.mark.parametrize("guess", [True, False])
@pytest.mark.parametrize("gradient", [True, False])
def test_a_kernel_is_given_all_logits_of_a_chunk(
    guess: bool, gradient: bool, kernel: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cross_entropy_module, "ALIGNED_ON_CPU", 8)
    one = given(torch.float32)
    with torch.set_grad_enabled(gradient):
        found = one.scores.cross_entropy(one.targets, 0.1, guess)
    assert kernel == [((15, 16), CLASSES, 0.1, guess, gradient)]
    monkeypatch.setattr(cross_entropy_module, "has_kernel", lambda device: False)
    expected = given(torch.float32).scores.cross_entropy(one.targets, 0.1, guess)
    assert torch.equal(found.sum, expected.sum) and len(kernel) == 1
    assert (found.guesses is None) if not guess else torch.equal(found.guesses, expected.guesses)


def test_what_a_kernel_cannot_or_need_not_do_is_done_without_one(
    kernel: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
):
    one, none = given(), given(torch.float32)
    one.scores.cross_entropy(one.targets)  # float64
    none.scores.with_states(none.states[:0]).cross_entropy(none.targets[:0])
    monkeypatch.setattr(cross_entropy_module, "FEW", CLASSES + 1)
    none.scores.cross_entropy(none.targets)
    monkeypatch.setattr(cross_entropy_module, "FEW", CLASSES)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)  # all around it
    none.scores.cross_entropy(none.targets)
    assert kernel == []


def test_a_kernel_that_cannot_be_written_is_done_without(
    kernel: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def fail(place: str) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(compiling, "failures", [])
    monkeypatch.setattr(
        cross_entropy_module,
        "score_at_once_",
        compiling.with_fallback(cross_entropy_module.score_by_kernel_, cross_entropy_module.score_in_parts_),
    )
    one = given(torch.float32)
    monkeypatch.setattr(cross_entropy_module, "import_object", fail)
    losses = [one.scores.cross_entropy(one.targets).sum for _ in range(2)]
    monkeypatch.setattr(cross_entropy_module, "has_kernel", lambda device: False)
    assert all(torch.equal(loss, one.scores.cross_entropy(one.targets).sum) for loss in losses)
    assert [record.getMessage() for record in caplog.records] == [
        "compiling failed, so the rest runs uncompiled, slower: No space left on device"
    ]


@pytest.mark.parametrize("chunks", [1, 5])
def test_a_gpu_adds_up_the_weights_gradient_as_it_multiplies(chunks: int, monkeypatch: pytest.MonkeyPatch):
    """In float32, where products of bfloat16 would be rounded before they are added."""
    parts = [slice(0, 15)] if chunks == 1 else cross_entropy_module.split(15, CLASSES, 3 * CLASSES)
    monkeypatch.setattr(cross_entropy_module, "chunks", lambda wanted, rows, weight, summed: parts)
    monkeypatch.setattr(cross_entropy_module, "writes_wider", lambda total, states: total.dtype != states.dtype)
    products: list[str] = []
    mm = torch.mm

    def multiply(x: Tensor, y: Tensor, *, out: Tensor, out_dtype: torch.dtype | None = None) -> Tensor:
        products.append("mm")
        return mm(x, y, out=out) if out_dtype is None else out.copy_(mm(x.to(out_dtype), y.to(out_dtype)))

    def add(total: Tensor, x: Tensor, y: Tensor, *, out: Tensor, out_dtype: torch.dtype) -> Tensor:
        products.append("addmm")
        assert out is total
        return out.add_(mm(x.to(out_dtype), y.to(out_dtype)))

    monkeypatch.setattr(torch, "mm", multiply)
    monkeypatch.setattr(torch, "addmm", add)
    one = given(torch.bfloat16, bias=False)
    one.weight.requires_grad_()
    one.scores.cross_entropy(one.targets).sum.backward()
    monkeypatch.undo()
    exact = given(torch.float32, bias=False)
    with torch.no_grad():
        exact.states.copy_(one.states), exact.weight.copy_(one.weight)
    exact.scores.cross_entropy(exact.targets).sum.backward()
    assert products.count("addmm") == chunks - 1
    assert one.weight.grad is not None and exact.weight.grad is not None
    torch.testing.assert_close(one.weight.grad.float(), exact.weight.grad, rtol=2e-2, atol=6e-2)


def test_a_product_is_no_wider_on_a_cpu_nor_where_all_is_compiled(monkeypatch: pytest.MonkeyPatch):
    total, states = torch.empty(2, device="meta"), torch.empty(2, dtype=torch.bfloat16)
    assert not cross_entropy_module.writes_wider(total, states)
    monkeypatch.setattr(torch.Tensor, "device", torch.device("cuda"))
    assert cross_entropy_module.writes_wider(total, states) and not cross_entropy_module.writes_wider(states, states)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not cross_entropy_module.writes_wider(total, states)


def test_a_narrow_gradient_is_rounded_once_where_it_is_scaled():
    gradient, by = torch.tensor([1.0, 3.0], dtype=torch.bfloat16), torch.tensor(1 / 3)
    assert torch.equal(cross_entropy_module.scale(gradient, by, torch.float32), gradient.float() * by)


def test_the_gradient_of_the_bias_is_summed_in_its_own_precision():
    total = torch.zeros(1)
    cross_entropy_module.add_sums_(total, torch.tensor([[1.0], [2.0**-9]], dtype=torch.bfloat16))
    assert total.item() == 1 + 2.0**-9


def test_only_a_gpu_has_a_kernel(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cross_entropy_module, "missing_for", lambda device: None)
    cross_entropy_module.has_kernel.cache_clear()
    assert cross_entropy_module.has_kernel(torch.device("cuda")) and not cross_entropy_module.has_kernel(
        torch.device("cpu")
    )
    monkeypatch.setattr(
        cross_entropy_module, "missing_for", lambda device: compiling.Missing("the package triton", "install it")
    )
    cross_entropy_module.has_kernel.cache_clear()
    assert not cross_entropy_module.has_kernel(torch.device("cuda"))
    cross_entropy_module.has_kernel.cache_clear()
