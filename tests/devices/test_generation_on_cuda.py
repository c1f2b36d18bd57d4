"""Claims that only a GPU can show: captured steps write what steps write that are taken as they are."""

from typing import Any

import pytest
import torch
from torch.nn.functional import dropout

from zoo.devices.copying import make_copier
from zoo.models.create import create_model
from zoo.models.generation import captured, generate
from zoo.models.generation.settings import parse_generate

ON_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU: no graph can be captured")
WINDOWED = {"decoder.attention": {"name": "grouped", "n_kv_heads": 2, "window": [3, None], "sinks": 1}}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("gpt2-nano", {}),
    ("gpt2-nano", {"decoder.position": "alibi", "decoder.attention.score": "additive"}),
    ("gpt-modern-nano", WINDOWED),
    ("gpt-nano", {"decoder.mixer": ["recurrent", "attention"], "decoder.position": "relative"}),
    ("gpt-nano", {"decoder.mixer": ["convolution", "recurrent"], "decoder.position": "none"}),
    ("transformer-nano", {}),
    ("rnn-attention-nano", {}),
]


@pytest.mark.parametrize(("name", "choice"), CASES, ids=str)
def test_the_cases_are_models(name: str, choice: dict[str, Any]):
    """Where there is no GPU, too: nobody would notice that a case of the test below cannot be built."""
    assert create_model(name, max_length=64, **choice).decoder is not None


@ON_GPU
@pytest.mark.parametrize("changes", [{}, {"temperature": 1.5}, {"beams": 3}], ids=str)
@pytest.mark.parametrize(("name", "choice"), CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_captured_steps_write_what_others_write(
    name: str, choice: dict[str, Any], changes: dict[str, Any], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
):
    model = create_model(name, max_length=64, **choice).to("cuda", dtype).eval()
    with torch.no_grad():
        for seed, parameter in enumerate(model.parameters()):
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed))
            parameter.add_(0.2 * noise.to("cuda", dtype))
    replay, replays, told = torch.cuda.CUDAGraph.replay, [], []
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda graph: replays.append(replay(graph)))
    monkeypatch.setattr("zoo.models.generation.captured.log_once", told.append)
    prompts = [[5 + number % 7 for number in range(length)] for length in (60, 50, 2, 45, 40)]
    source = None if model.encoder is None else torch.arange(3, 18, device="cuda").view(5, 3)
    asked = model, prompts, parse_generate({"max_new_tokens": 60, **changes}), None, source
    found = generate.generate(*asked)
    assert len(replays) > 20 and not told
    monkeypatch.setattr(generate, "uses_cuda_graphs", lambda device, steps: False)
    replays.clear()
    expected = generate.generate(*asked)
    assert not replays and [len(one.tokens) for one in found] == [len(one.tokens) for one in expected]
    if dtype == torch.float64:  # in which no rounding decides
        assert [one.tokens for one in found] == [one.tokens for one in expected]


@ON_GPU
def test_a_failed_capture_leaves_random_numbers_and_memory_as_they_were(monkeypatch: pytest.MonkeyPatch):
    device = torch.device("cuda", 0)
    monkeypatch.setattr(captured, "failures", [])
    taken, x = captured.CapturedStep(lambda x: x * float(x.sum()), device, 30), torch.ones(2, device=device)
    assert [taken(x).tolist() for _ in range(3)] == [[2.0, 2.0]] * 3 and len(captured.failures) == 1
    assert dropout(x, 0.5).shape == x.shape  # in torch 2.11 the generator would refuse

    def in_use() -> int:
        """Bytes that the allocator does not hand out again, freed ones that another stream may still read included."""
        torch.cuda.synchronize(device)
        torch.ones(1, device=device)  # the allocator looks for finished streams when it is asked for memory
        return int(torch.cuda.memory_stats(device)["active_bytes.all.current"])

    before, copy = in_use(), make_copier(device)
    for _ in range(3):
        copy(torch.ones(1 << 20).pin_memory()).add_(1)
    assert in_use() - before < 1 << 20
