"""The comparison of tokens to a loss trains each run that is asked for, and reads only that one again."""

import json
from argparse import Namespace
from pathlib import Path

import pytest

from programs import load_program


def test_a_run_of_other_tokens_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("matplotlib", reason="the benchmark draws with matplotlib")
    muon = load_program("benchmarks/muon.py")
    trained: list[str] = []

    def zoo(*words: str) -> str:
        run = Path(words[words.index("-o") + 1])
        run.mkdir()
        (run / "config.yaml").write_text("base: gpt2-nano\n")
        (run / "metrics.jsonl").write_text(json.dumps({"step": 1, "validation/loss": 4.0}) + "\n")
        trained.extend(word for word in words if word.startswith("training.steps="))
        return ""

    monkeypatch.setattr(muon, "zoo", zoo)
    for steps in (3, 7, 3):
        found = muon.train(tmp_path, muon.BASELINE, steps * muon.BATCH * muon.LENGTH, 1e-3, 0, whole_split=False)
    assert trained == ["training.steps=3", "training.steps=7"] and found["loss"] == 4.0
    assert (found["tokens"], found["losses"]) == ([muon.BATCH * muon.LENGTH], [4.0])


def test_a_rate_that_diverges_is_not_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("matplotlib", reason="the benchmark draws with matplotlib")
    muon = load_program("benchmarks/muon.py")
    losses = {1e-3: None, 2e-3: 4.0, 4e-3: None}
    monkeypatch.setattr(muon, "train", lambda runs, side, tokens, rate, **_: {"loss": losses[rate]})
    rate, _ = muon.best_rate(muon.BASELINE, Namespace(runs=tmp_path, search_tokens=1e3, rates=list(losses)))
    assert rate == 2e-3
