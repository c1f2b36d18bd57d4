"""How a head's loss is cut into chunks, how their logits lie, and what of it is compiled."""

import pytest
import torch
from head_inputs import CLASSES, WIDTH, given
from torch import Tensor

from zoo.models.heads import cross_entropy as module
from zoo.models.heads.scores import Scores


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The few classes of these tests count as many."""
    monkeypatch.setattr(module, "FEW", CLASSES)


@pytest.mark.parametrize("aligned", [1, 8])
def test_no_tensor_of_all_logits_is_made(aligned: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "ALIGNED_ON_CPU", aligned)
    monkeypatch.setattr(module, "LOGITS_ON_CPU", 3 * module.room_for(CLASSES, torch.device("cpu")))
    sizes: list[int] = []
    score = module.score_chunk_

    def measured(logits: Tensor, *others: object) -> None:
        sizes.append(len(logits))
        score(logits, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "score_chunk_", measured)
    one = given()
    one.scores.cross_entropy(one.targets)
    assert sizes == [3] * 5


def test_rows_of_logits_begin_at_even_addresses_where_products_want_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "ALIGNED_ON_CPU", 8)
    begins = set()
    score = module.score_chunk_

    def measured(logits: Tensor, *others: object) -> None:
        begins.add((logits.stride(0), logits.shape[1]))
        score(logits, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "score_chunk_", measured)
    one = given()
    one.scores.cross_entropy(one.targets).sum.backward()
    assert begins == {(16, CLASSES)} and one.weight.grad is not None and one.weight.grad.shape == one.weight.shape
    assert module.room_for(50257, torch.device("cuda")) == 50304 and module.room_for(2, torch.device("cuda")) == 2


@pytest.mark.parametrize("bias", [None, torch.ones(CLASSES)], ids=["no bias", "bias"])
def test_room_for_no_class_gives_infinite_states_no_gradient(bias: Tensor | None, monkeypatch: pytest.MonkeyPatch):
    """Beside a weight that is frozen: that of another one is not finite then."""
    monkeypatch.setattr(module, "ALIGNED_ON_CPU", 8)
    states = torch.full((2, WIDTH), torch.inf, requires_grad=True)
    Scores(states, torch.ones(CLASSES, WIDTH), bias).cross_entropy(torch.tensor([-1, -1])).sum.backward()
    assert states.grad is not None and not states.grad.any()


def test_all_rows_are_one_chunk_where_a_sum_over_chunks_takes_as_much_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "LOGITS_ON_CPU", 2 * CLASSES)
    weight = torch.zeros(CLASSES, WIDTH, dtype=torch.bfloat16)

    def counted(rows: int, dtype: torch.dtype = torch.bfloat16, summed: bool = True) -> int:
        wanted = module.Wanted(dtype, label_smoothing=0.0, guess=False, gradient=summed)
        return len(module.chunks(wanted, rows, weight.to(dtype), summed))

    assert counted(2 + 2 * WIDTH) == 1  # 20 bytes a class, and 16 less for the gradient of the weight
    assert counted(2 + 2 * WIDTH + 1) == 6
    assert counted(2 + 2 * WIDTH, torch.float32) == counted(2 + 2 * WIDTH, summed=False) == 5


def test_in_float16_the_gradient_of_many_rows_is_larger_than_float16(monkeypatch: pytest.MonkeyPatch):
    """It waits for the backward pass, where the loss is divided by its count and scaled: only then it is small."""
    monkeypatch.setattr(module, "ROWS_IN_FLOAT16", 1000)
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


def test_only_what_has_a_gradient_is_compiled(monkeypatch: pytest.MonkeyPatch):
    """Rows of a validation have many shapes, and each of them could cost a graph; few classes are not worth one."""
    assert not module.gains_by_compiling(torch.device("cpu")) and module.gains_by_compiling(torch.device("cuda"))
    monkeypatch.setattr(module, "gains_by_compiling", lambda device: True)
    asked: list[int] = []
    one = given()
    monkeypatch.setattr(module, "compiled", lambda function, graphs: asked.append(graphs) or function)
    monkeypatch.setattr(module, "LOGITS_ON_CPU", 2**20)
    cases = [
        (False, True, CLASSES, 0),
        (True, False, CLASSES, 0),
        (True, True, CLASSES + 1, 0),
        (True, True, CLASSES, 1),
    ]
    for gradient, wanted, few, times in cases:
        monkeypatch.setattr(module, "FEW", few)
        with torch.set_grad_enabled(gradient):
            scores = one.scores
        scores.compiled = wanted
        scores.cross_entropy(one.targets)
        assert len(asked) == times
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)  # all around it: it goes into that graph
    scores.cross_entropy(one.targets)
    assert len(asked) == 1
