"""What fine-tuning adds to a checkpoint's tokenizer and model: words and sentinels that a task needs."""

import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from commands import Said

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.api import load
from zoo.runs.checkpoint import write_checkpoint
from zoo.runs.saved import open_run

Zoo = Callable[..., Said]
RunOf = Callable[[str], Path]
STILL = ("training.steps=1", "training.learning_rate=1e-12")  # weights stay as they begin


def tokenizer_of(run: Path) -> Tokenizer:
    return Tokenizer.from_files(open_run(run).tokenizer)


def tables(*runs: Path) -> list[torch.Tensor]:
    """The token vectors of each run."""
    return [load(run).state_dict()["encoder.stack.embeddings.tokens.weight"] for run in runs]


def test_an_added_word_is_one_token_and_begins_as_the_mean_of_its_pieces(
    zoo: Zoo, data: Path, tmp_path: Path, run_of: RunOf
):
    words = ("finetune", run_of("mlm"), data / "mlm.yaml", "-o", tmp_path / "run", "--data", data)
    said = zoo(*words, "task.tokenizer.add=[underhouse]", *STILL)
    assert said.status == 0 and "tokenizer: 1 of 1 added words are new" in said.log
    before, after = (tokenizer_of(run).encode(["underhouse"])[0].tolist() for run in (run_of("mlm"), tmp_path / "run"))
    assert len(before) > 1 and len(after) == 1
    old, new = tables(run_of("mlm"), tmp_path / "run")
    torch.testing.assert_close(new[after[0]], old[before].mean(0), atol=1e-9, rtol=0)
    torch.testing.assert_close(new[: len(old)], old, atol=1e-9, rtol=0)


def test_a_task_with_sentinels_adds_them_behind_the_tokens_of_the_checkpoint(
    zoo: Zoo, data: Path, tmp_path: Path, run_of: RunOf
):
    words = ("finetune", run_of("numbers"), data / "lm.yaml", "-o", tmp_path / "run", "--data", data)
    said = zoo(*words, "task.objective={span_corruption: {sentinels: 9}}", "task.metrics=[]", *STILL)
    assert said.status == 0 and "tokenizer: 9 new sentinels" in said.log
    before, after = (tokenizer_of(run).vocabulary for run in (run_of("numbers"), tmp_path / "run"))
    assert before.items() < after.items() and len(after) == len(before) + 9
    old, new = tables(run_of("numbers"), tmp_path / "run")
    assert len(new) == len(after)
    torch.testing.assert_close(new[: len(old)], old, atol=1e-9, rtol=0)


def test_a_checkpoint_with_a_weight_that_is_not_finite_is_refused_before_anything_is_written(
    zoo: Zoo, data: Path, tmp_path: Path, run_of: RunOf
):
    shutil.copytree(run_of("mlm"), tmp_path / "base")
    found = open_run(tmp_path / "base").checkpoint
    weights = found.published
    weights["encoder.stack.embeddings.tokens.weight"][3, 1] = float("nan")
    training = (found.folder / "training.yaml").read_bytes()
    write_checkpoint(found.folder, {"weights": weights}, found.state, training, found.mark, found.run_files)
    said = zoo("finetune", tmp_path / "base", data / "classify.yaml", "-o", tmp_path / "run", "--data", data, *STILL)
    assert said.status == 2 and "encoder.stack.embeddings.tokens.weight holds NaN, not a finite" in said.err
    assert not (tmp_path / "run").exists()
