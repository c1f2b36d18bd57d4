"""What the comparison of the three mixers measures: the same parameters, how paths grow, and what is kept."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch

from programs import load_program


@pytest.fixture(scope="module")
def three_ways() -> Any:
    pytest.importorskip("matplotlib", reason="the benchmark draws with matplotlib")
    return load_program("benchmarks/three_ways.py")


def test_the_three_have_as_many_parameters_to_within_a_percent(three_ways: Any):
    counts = {
        name: sum(p.numel() for p in three_ways.build(choice, 256).parameters())
        for name, choice in three_ways.mixer_choices(256).items()
    }
    assert max(counts.values()) < 1.01 * min(counts.values())


def test_a_run_that_is_there_goes_on_and_is_not_taken_for_a_whole_one(
    three_ways: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[tuple[str, ...]] = []

    def zoo(*words: str) -> None:
        asked.append(words)
        run = Path(words[words.index("-o") + 1])
        run.mkdir(exist_ok=True)
        (run / "config.yaml").write_text("base: gpt2-nano\n")
        lines = [{"step": 1, "tokens_per_second": 3.0}, {"step": 2, "tokens_per_second": 5.0, "validation/loss": 4.0}]
        (run / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    monkeypatch.setattr(three_ways, "zoo", zoo)
    for steps in (2, 2, 3):  # a run of other steps has another schedule
        found = three_ways.train(tmp_path, Namespace(model="gpt2-nano", task="pydocs-lm", steps=steps))
    assert [run["loss"] for run in found.values()] == [[4.0]] * 3
    assert ["--resume" in words for words in asked] == [False] * 3 + [True] * 3 + [False] * 3


def test_paths_grow_with_the_length_for_convolutions_only(three_ways: Any):
    layers = three_ways.measure_paths([4, 5, 13])
    assert layers == {"attention": [1, 1, 1], "convolution": [1, 2, 4], "recurrent": [1, 1, 1]}


def test_weights_written_out_are_kept_and_grow_with_the_square_of_the_length(three_ways: Any):
    attention, kept = three_ways.build("attention", 64), {}
    for length in (64, 128):
        x = torch.randn(1, length, 64, requires_grad=True)
        view = three_ways.document_view(length)
        for eager in (False, True):
            kept[length, eager] = three_ways.saved_bytes(attention, x, view, eager)
    n_heads = 2
    assert kept[128, False] < 2.1 * kept[64, False]
    assert kept[128, True] - kept[128, False] >= n_heads * 128**2 * 4
    assert kept[128, True] - kept[128, False] > 3.5 * (kept[64, True] - kept[64, False])
