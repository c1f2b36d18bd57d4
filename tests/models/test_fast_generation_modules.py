"""Fast generation leaves a model's modules as they were, and a process forked meanwhile waits for nobody."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from threading import Event

import pytest
import torch
from torch import nn

from zoo import create_model
from zoo.blocks.dropout import Dropout
from zoo.blocks.projections import is_patched
from zoo.models.generation.fast import fast_generation
from zoo.models.generation.generate import generate
from zoo.models.generation.reordered import ReorderedMatrix
from zoo.models.generation.settings import GenerateSettings
from zoo.models.model import Model


def test_modules_find_their_parts_at_once_and_are_left_as_they_were() -> None:
    model = create_model("gpt2-nano")
    before = [set(module.__dict__) for module in model.modules()]
    block, new = model.decoder.stack.blocks[0], Dropout(0.5)
    with fast_generation(model):
        assert block.__dict__["mixer"] is block.mixer and "weight" not in block.feed_forward.up.__dict__
        block.dropout = new  # which takes the place of the old one here, too
        assert block.dropout is new
    assert block.dropout is new and [set(module.__dict__) for module in model.modules()] == before


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch is built without oneDNN here")
@pytest.mark.parametrize("changed", range(3))
def test_matrices_that_share_a_product_are_reordered_anew_whichever_of_them_changes(changed: int) -> None:
    weights = [nn.Parameter(torch.randn(n, 16, generator=torch.Generator().manual_seed(n))) for n in (8, 4, 2)]
    before = ReorderedMatrix.of(weights)
    assert ReorderedMatrix.of(weights) is before
    weights[changed].data[0, 0] += 1  # which does not change the version
    assert ReorderedMatrix.of(weights) is not before


@contextmanager
def written_by_a_thread(model: Model) -> Iterator[None]:
    """Inside, another thread generates."""
    writes, enough = Event(), Event()

    def write() -> None:
        with fast_generation(model):
            writes.set()
            enough.wait()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(write)
        writes.wait()
        try:
            yield
        finally:
            enough.set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_process_that_is_forked_while_a_thread_writes_can_write_and_finds_the_model_as_it_was() -> None:
    model = create_model("gpt2-nano").eval()
    before = [set(module.__dict__) for module in model.modules()]
    with written_by_a_thread(model):
        child = os.fork()
        if not child:
            signal.alarm(60)
            generate(create_model("gpt2-nano"), [[1, 5]], GenerateSettings(max_new_tokens=2), None)
            with fast_generation(model):
                fast = "forward" in model.heads["language"].__dict__
            os._exit(not fast or [set(module.__dict__) for module in model.modules()] != before)
    assert os.waitpid(child, 0)[1] == 0


def test_a_copy_that_is_made_while_a_thread_writes_computes_from_its_own_weights() -> None:
    model = create_model("gpt2-nano").to(torch.bfloat16).eval()
    with written_by_a_thread(model):
        copy = deepcopy(model)
    for weight in copy.parameters():
        nn.init.normal_(weight)
    alike = create_model("gpt2-nano").to(torch.bfloat16).eval()
    alike.load_state_dict(copy.state_dict())
    tokens = torch.tensor([[1, 5, 4]])
    assert copy(tokens).logits.equal(alike(tokens).logits)
    assert not any(map(is_patched, copy.modules()))  # so it generates fast, too


BLOCK = "decoder.stack.blocks.0"


@pytest.mark.parametrize("kind", ["feed_forward.up", "feed_forward.activation", "mixer.attention.query", "head"])
def test_a_module_whose_forward_was_patched_computes_by_it_and_keeps_it(kind: str) -> None:
    """As accelerate's hooks do it."""
    model, calls = create_model("gpt2-nano").to(torch.bfloat16).eval(), []
    patched = model.get_submodule("heads.language" if kind == "head" else f"{BLOCK}.{kind}")
    before = patched.forward

    def forward(*given: torch.Tensor) -> torch.Tensor:
        calls.append(kind)
        return before(*given)

    patched.forward = forward
    generate(model, [[1, 5]], GenerateSettings(max_new_tokens=2), None)
    assert len(calls) == 2 and patched.forward is forward
