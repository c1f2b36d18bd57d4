"""Fast generation leaves a model's modules as they were, and a process forked meanwhile waits for nobody."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from zoo import create_model
from zoo.blocks.dropout import Dropout
from zoo.models.generation.fast import fast_generation
from zoo.models.generation.generate import generate
from zoo.models.generation.settings import GenerateSettings


def test_modules_find_their_parts_at_once_and_are_left_as_they_were() -> None:
    model = create_model("gpt2-nano")
    before = [set(module.__dict__) for module in model.modules()]
    block, new = model.decoder.stack.blocks[0], Dropout(0.5)
    with fast_generation(model):
        assert block.__dict__["mixer"] is block.mixer and "weight" not in block.feed_forward.up.__dict__
        block.dropout = new  # which takes the place of the old one here, too
        assert block.dropout is new
    assert block.dropout is new and [set(module.__dict__) for module in model.modules()] == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_process_that_is_forked_while_a_thread_writes_can_write() -> None:
    model, writes, enough = create_model("gpt2-nano").eval(), Event(), Event()

    def write() -> None:
        with fast_generation(model):
            writes.set()
            enough.wait()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(write)
        writes.wait()
        child = os.fork()
        if not child:
            signal.alarm(10)
            generate(create_model("gpt2-nano"), [[1, 5]], GenerateSettings(max_new_tokens=2), None)
            os._exit(0)
        enough.set()
    assert os.waitpid(child, 0)[1] == 0
