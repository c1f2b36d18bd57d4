"""A CHECKPOINT is a run folder or a checkpoint folder inside one; loading and exporting start from it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.checkpoint import load_checkpoint
from zoo.inference.loaded import load_run
from zoo.models.settings import dump_settings
from zoo.runs.run import RunFiles, create_run
from zoo.runs.saved import SavedRun, open_run
from zoo.runs.tensors import unique_tensors

TASK = {"objective": {"classification": {}, "causal_lm": {}}, "labels": ["bad", "good"]}


@pytest.fixture
def run(tmp_path: Path, build: Any) -> Path:
    """A run of a small GPT that classifies, with checkpoints of two steps."""
    given = build("gpt2-nano", {"heads": ["language", "classification"]})
    task = {**TASK, "source": {"files": {"train": "train.tsv"}}}
    files = RunFiles(dump_settings(given.settings), task, tokenizer=given.tokenizer.files())
    folder = tmp_path / "run"
    with create_run(folder, files) as opened:
        for step in (5, 7):
            best = {"step": step, "metric": "classification/accuracy", "value": 0.75}
            opened.save(step, {"weights": unique_tensors(given.model)}, {"step": step, "best": best})
            with torch.no_grad():
                given.model.decoder.embeddings.tokens.weight.mul_(0.5)
    return folder


def test_a_run_and_its_checkpoints_load_the_weights_of_their_step(run: Path):
    table = "decoder.stack.embeddings.tokens.weight"
    last, first = (zoo.load(path).state_dict()[table] for path in (run, run / "checkpoints" / "5"))
    torch.testing.assert_close(first, 2 * last)
    assert not zoo.load(str(run)).training


def test_a_run_with_broken_weights_or_too_many_tokens_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch):
    saved, weights = open_run(run), open_run(run).weights
    tokenizer = Tokenizer.from_files(saved.tokenizer)
    tokenizer.add_sentinels(1)
    sizes, remedy = "151 tokens, the model 150 token embeddings; they do not match", r"resize_token_embeddings\(151\)"
    with pytest.raises(ValueError, match=f"the tokenizer has {sizes}. Use the model's own tokenizer, or .* {remedy}"):
        load_run(replace(saved, tokenizer=tokenizer.files()))
    name = next(iter(weights))
    monkeypatch.setattr(SavedRun, "weights", {**weights, name: weights[name] * torch.nan})
    with pytest.raises(ValueError, match=f"{name}.*NaN"):
        load_run(saved)


def test_weights_are_those_of_the_file_and_can_be_trained_whatever_the_caller_set_for_all_of_torch(run: Path):
    with torch.device("meta"), torch.inference_mode():
        model, answer = zoo.load(run, device="cpu"), zoo.pipeline(run, device="cpu")
    for weights, expected in zip(model.parameters(), zoo.load(run, device="cpu").parameters(), strict=True):
        assert torch.equal(weights, expected) and not weights.is_inference()
    assert not next(answer.loaded.model.parameters()).is_inference()


def test_a_checkpoint_comes_with_its_tokenizer_and_task(run: Path):
    loaded = load_checkpoint(run)
    assert loaded.tokenizer.vocab_size == 150 and loaded.task.labels == ["bad", "good"]
    assert next(iter(loaded.mixture.members)) == "classification"


def test_a_run_is_exported_and_reloaded_where_zoo_cannot_be_imported(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("zoo.devices.precision.has_bfloat16", lambda device: True)  # the default of other commands
    with torch.autocast("cpu", torch.bfloat16):  # the caller's, under which the check is as exact
        report = zoo.export(run, tmp_path / "out", device="cpu")
    assert report.check.differences["float32"] < 1e-5
    before = zoo.load(run).state_dict()
    assert all(torch.equal(tensor, before[name]) for name, tensor in zoo.load(tmp_path / "out").state_dict().items())
    assert report.class_name == "GPT2ForSequenceClassification" and report.left_out == ("language",)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "objective: classification, causal_lm" in card and "steps of training: 7" in card
    assert "classes: bad, good" in card and "the largest difference of logits over" in card
    assert "AutoModelForSequenceClassification.from_pretrained" in card


def test_what_is_no_run_is_refused_in_words(run: Path, tmp_path: Path):
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="hf/config.json: no such file, or an empty one"):
        zoo.load(tmp_path / "hf")
    with pytest.raises(ValueError, match="none: no such folder"):
        zoo.load(tmp_path / "none")
    with pytest.raises(ValueError, match="no checkpoint '9' in .*; available: "):
        zoo.export(run / "checkpoints" / "9", tmp_path / "out")
    with pytest.raises(ValueError, match="target: expected a text or null, got 3"):
        zoo.export(run, tmp_path / "out", 3)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
