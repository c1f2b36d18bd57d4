"""A model on the CPU stays there, whatever device torch makes tensors on where nobody names one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from zoo.blocks.rows.documents import Borders
from zoo.models.create import create_model
from zoo.models.generation.generate import generate
from zoo.models.generation.reordered import clear_reordered_matrices, weighted_sum
from zoo.models.generation.settings import GenerateSettings


@contextmanager
def elsewhere() -> Iterator[None]:
    """Tensors for which nobody names a device lie on none, as they lie on a GPU where that is torch's default."""
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


def same_elsewhere(compute: Callable[[], Tensor]) -> None:
    expected = compute()
    with elsewhere():
        found = compute()
    assert torch.equal(found, expected)


@pytest.mark.parametrize("name", ["gpt2-nano", "transformer-nano", "rnn-attention-nano"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_is_trained_where_it_is(name: str, dtype: torch.dtype):
    model, drawn = create_model(name).train(), torch.Generator().manual_seed(0)
    tokens, targets = (torch.randint(5, 100, (2, 12), generator=drawn) for _ in range(2))

    def gradient() -> Tensor:
        model.zero_grad()
        torch.manual_seed(1)
        with torch.autocast("cpu", dtype, enabled=dtype == torch.bfloat16):
            said = model(tokens, None if model.encoder is None else tokens)
            said.scores["language"].cross_entropy(targets).sum.backward()
        return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    same_elsewhere(gradient)


@pytest.mark.parametrize("name", ["gpt2-nano", "transformer-nano"])
def test_texts_are_written_where_the_model_is(name: str):
    model, settings = create_model(name).bfloat16(), GenerateSettings(max_new_tokens=4)
    source = None if model.encoder is None else torch.tensor([[5, 6, 7]] * 2)

    def written() -> Tensor:
        clear_reordered_matrices()
        return torch.tensor(
            [one.tokens for one in generate(model, [[5, 6], [7]], settings, None, source)], device="cpu"
        )

    same_elsewhere(written)


def test_borders_lie_on_the_cpu_until_they_are_sent():
    same_elsewhere(lambda: Borders.of([[3, 2], [4]], 6).queries)


def test_a_print_is_of_where_the_matrix_is():
    words = torch.arange(12).view(3, 4)
    with elsewhere():
        found = weighted_sum(words)
    assert found == weighted_sum(words)
