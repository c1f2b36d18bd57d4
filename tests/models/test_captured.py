"""Claims about the steady form of a decoder's state, and about steps that are captured once and replayed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from test_decoding import CHOICES, EXACT, LEFT_PADDED, SOURCE, SOURCE_DOCUMENTS, TOKENS, build
from torch import Tensor

from capturing import Graph, captured_on_the_cpu
from zoo.blocks.mixer import tensors_of
from zoo.models.generation import captured
from zoo.models.generation.captured import CapturedStep, uses_cuda_graphs
from zoo.models.generation.generate import generate
from zoo.models.generation.search import Generated
from zoo.models.generation.settings import parse_generate
from zoo.models.model import Model

READ, ROWS, CPU = 2, torch.tensor([2, 0, 0]), torch.device("cpu")
NAMES = ["gpt2-nano", "transformer-nano", "rnn-attention-nano"]
EACH = [(name, choice) for name in ("gpt-nano", "transformer-nano") for choice in CHOICES]
EACH += [(name, {}) for name in ("rnn-attention-nano", "rnn-seq2seq-nano", "captioner-transformer-nano")]
PROMPTS = [[5 + number % 7 for number in range(length)] for length in (60, 50, 2, 45, 40)]


def started(model: Model, padded: bool) -> tuple[Any, Tensor | None]:
    """A state that has read the first positions."""
    source = None if model.encoder is None else SOURCE
    if model.encoder is not None and model.encoder.image_size is not None:
        source = model.encoder.blank(1, CPU).repeat(3, 1, 1, 1)
    sources = SOURCE_DOCUMENTS if padded and source is SOURCE else None
    documents = LEFT_PADDED if padded else None
    state = model.decoder.start(3, model.encode_source(source, sources), TOKENS.shape[1])
    model.decoder.step(TOKENS[:, :READ], None if documents is None else documents[:, :READ], state)
    return state, documents


def go_on(model: Model, state: Any, documents: Tensor | None, reorders: bool) -> Tensor:
    """What is said of the other positions, one at a time."""
    said = []
    for at in range(READ, TOKENS.shape[1]):
        if reorders:
            model.decoder.reorder(state, ROWS)
        here = slice(at, at + 1)
        said.append(model.decoder.step(TOKENS[:, here], None if documents is None else documents[:, here], state))
    return torch.cat(said, dim=1)


def places(state: Any) -> list[tuple[int, torch.Size]]:
    """Where the tensors of a steady state are, and their shapes."""
    if not hasattr(state, "progress"):
        return [(x.data_ptr(), x.shape) for x in state.vectors]
    found = [state.progress.numbers, state.progress.lengths, state.progress.place, *tensors_of(state.blocks)]
    return [(x.data_ptr(), x.shape) for x in found]


@torch.no_grad()
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("name", "choice"), EACH, ids=str)
def test_steady_steps_say_what_others_say_from_tensors_that_keep_their_places(
    name: str, choice: dict[str, Any], padded: bool
):
    model = build(name, choice)
    for reorders in (False, True):
        (one, documents), (other, _) = started(model, padded), started(model, padded)
        model.decoder.settle(other)
        before = places(other)
        found = go_on(model, other, documents, reorders)
        torch.testing.assert_close(found, go_on(model, one, documents, reorders), **EXACT)
        assert places(other) == before


def written(model: Model, changes: dict[str, Any]) -> list[Generated]:
    """Texts that end at different steps: their prompts leave more or less room."""
    source = None if model.encoder is None else SOURCE[[0, 1, 2, 1, 0]]
    return generate(model, PROMPTS, parse_generate({"max_new_tokens": 40, **changes}), None, source)


@pytest.mark.parametrize("changes", [{}, {"temperature": 1.5}, {"beams": 3}], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_captured_steps_write_what_others_write(name: str, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    model = build(name, {"max_length": 64})
    expected = written(model, changes)
    graphs = captured_on_the_cpu(monkeypatch)
    monkeypatch.setattr(captured, "MIN_STEPS_TO_RECAPTURE", 0)
    for found, one in zip(written(model, changes), expected, strict=True):
        assert found.tokens == one.tokens and found.score == pytest.approx(one.score, abs=1e-6)
    # of 5 rows one has ended at the look after 8 steps, 2 at 16, 3 at 24, 4 at 32: they leave where half are left
    assert [graph.replays for graph in graphs] == [22, 6, 6]


@pytest.mark.parametrize(("pays", "replays"), [(16, [22, 14]), (17, [38])])
def test_rows_stay_where_few_steps_are_left(pays: int, replays: list[int], monkeypatch: pytest.MonkeyPatch):
    model = build("gpt2-nano", {"max_length": 64})
    expected = written(model, {"beams": 3})
    graphs = captured_on_the_cpu(monkeypatch)
    monkeypatch.setattr(captured, "MIN_STEPS_TO_RECAPTURE", pays)
    found = written(model, {"beams": 3})
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    assert [graph.replays for graph in graphs] == replays


def test_nothing_is_captured_where_that_is_turned_off(monkeypatch: pytest.MonkeyPatch):
    model = build("gpt2-nano", {"max_length": 64})
    expected = written(model, {})
    graphs = captured_on_the_cpu(monkeypatch)
    assert written(model, {"fast": False}) == expected and not graphs


def test_a_step_that_cannot_be_captured_is_taken_as_it_is_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    model = build("gpt2-nano", {})
    expected = written(model, {})
    graphs = captured_on_the_cpu(monkeypatch)

    @contextmanager
    def refusing(graph: Graph, **options: Any) -> Iterator[None]:
        with graph:
            yield
        graph.end()
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    monkeypatch.setattr(torch.cuda, "graph", refusing)
    monkeypatch.setattr(captured, "failures", [])
    captured.log_once.cache_clear()
    with caplog.at_level("INFO", "zoo.models.generation.captured"):
        assert written(model, {}) == written(model, {}) == expected
    told = [message for message in caplog.messages if "CUDA graph" in message]
    assert len(told) == 1 and told[0].endswith("is slower: operation not permitted when stream is capturing")
    assert not graphs
    assert not uses_cuda_graphs(torch.device("cuda"), 1000)  # whatever is written later in this process


def test_a_failed_capture_leaves_neither_the_allocator_nor_the_random_generator_capturing(
    monkeypatch: pytest.MonkeyPatch,
):
    """As torch 2.11 leaves them: batches would never be freed, and dropout of the next training step would fail."""
    captured_on_the_cpu(monkeypatch)
    pools: list[Any] = []
    released: list[Any] = []
    generators: list[str] = []

    @contextmanager
    def of_torch(graph: Graph, pool: Any = None, **options: Any) -> Iterator[None]:
        pools.append(pool)
        generators[:] = ["capturing"]
        yield  # an error skips the rest
        pools.remove(pool)
        generators.clear()

    def step(x: Tensor) -> Tensor:
        if generators:
            raise RuntimeError("operation not permitted when stream is capturing")
        return x + 1

    monkeypatch.setattr(torch.cuda, "graph", of_torch)
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", lambda device, pool: pools.remove(pool))
    monkeypatch.setattr(torch._C, "_cuda_releasePool", lambda device, pool: released.append(pool))
    monkeypatch.setattr(captured, "failures", [])
    taken = CapturedStep(step, CPU, 9)
    assert [taken(torch.ones(1)).item() for _ in range(4)] == [2.0] * 4 and len(captured.failures) == 1
    assert (pools, len(released), generators) == ([], 1, [])


def test_a_replay_repeats_the_hosts_numbers_and_capturing_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    graphs, count, calls = captured_on_the_cpu(monkeypatch), torch.zeros(2), []

    def step(x: Tensor) -> Tensor:
        calls.append(len(calls))
        count.add_(1)
        return x + count + 100 * calls[-1]

    taken = CapturedStep(step, CPU, 9)
    said = [taken(torch.tensor([1.0, 2.0])).tolist() for _ in range(6)]
    # the first one as it is, then the second is captured: the host's number stays, the device's count goes on
    assert said == [[100 * min(i, 1) + i + 2.0, 100 * min(i, 1) + i + 3.0] for i in range(6)]
    taken(torch.ones(1))
    assert calls == [0, 1, 2] and graphs[0].replays == 5 and taken.recording is None


def test_steps_are_captured_on_cuda_where_enough_of_them_are_left(monkeypatch: pytest.MonkeyPatch):
    assert uses_cuda_graphs(torch.device("cuda", 1), 17) and not uses_cuda_graphs(torch.device("cuda"), 16)
    assert not uses_cuda_graphs(CPU, 1000) and not uses_cuda_graphs(torch.device("mps"), 1000)
    graphs = captured_on_the_cpu(monkeypatch, pays=3)
    for steps, times in ((3, 0), (4, 1)):
        taken = CapturedStep(lambda x: x + 1, CPU, steps)
        assert [taken(torch.ones(1)).item() for _ in range(steps)] == [2.0] * steps and len(graphs) == times
