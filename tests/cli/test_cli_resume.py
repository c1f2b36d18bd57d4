"""Claims about a run's request: its seed, its changes, which are repeated on resume, and the hashes of its base."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from commands import Said

from zoo.hub.api import load
from zoo.models.model import Model
from zoo.runs.saved import open_run
from zoo.strict_yaml import read_yaml

Zoo = Callable[..., Said]
RunOf = Callable[[str], Path]


def test_resuming_repeats_the_changes_of_the_first_call(zoo: Zoo, data: Path, tmp_path: Path):
    words = ("pretrain", "bert-nano", data / "classify.yaml", "-o", tmp_path / "run", "--data", data)
    changes = ("training.steps=2", "d_ff=40", "training.seed=5", "training.warmup_steps=0.5")
    assert zoo(*words, *changes).status == 0
    said = zoo(*words, "--resume")
    assert said.status == 0 and "already complete: 2 of 2 steps" in said.log
    assert f"continues with the changes of the first command: {', '.join(changes)}" in said.log
    said = zoo(*words, "--resume", "training.steps=4")
    assert said.status == 0 and "continues with changed steps: 2 -> 4" in said.log
    assert "continues with changed warmup_steps: 1 -> 2 (the schedule becomes that of the new warm-up)" in said.log
    said = zoo(*words, "--resume")
    assert said.status == 0 and "already complete: 4 of 4 steps" in said.log


def test_the_seed_draws_the_first_weights(zoo: Zoo, data: Path, tmp_path: Path):
    words = ("pretrain", "bert-nano", data / "classify.yaml", "-o", tmp_path / "run", "--data", data)
    assert zoo(*words, "training.seed=7", "training.steps=1", "training.learning_rate=1e-12").status == 0
    found = load(tmp_path / "run", device="cpu")
    for name, tensor in Model.from_seed(found.settings, 7).state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], tensor, rtol=0, atol=1e-9)


def test_a_run_whose_record_is_gone_is_resumed_where_its_changes_are_repeated(zoo: Zoo, data: Path, tmp_path: Path):
    words = ("pretrain", "bert-nano", data / "classify.yaml", "-o", tmp_path / "run", "--data", data, "--resume")
    request = tmp_path / "run" / "request.yaml"
    assert zoo(*words, "training.steps=1").status == 0
    request.write_text("start: [")
    said = zoo(*words, "training.steps=1")
    assert said.status == 2 and "restore it, or delete it and repeat those changes" in said.err
    request.unlink()
    said = zoo("check", tmp_path / "run")
    assert said.status == 1 and "without it, --resume needs the changes of the first command again" in said.out
    said = zoo(*words, "training.steps=2")
    assert said.status == 2 and "request.yaml: is lost, and with it the changes of the first command; rep" in said.err
    assert "these settings differ: training.yaml: steps: 1 -> 2" in said.err and not request.exists()
    said = zoo(*words, "training.steps=1")
    assert said.status == 0 and "request.yaml: no such file, but environment.json lists it; the run con" in said.log
    assert read_yaml(request)["changes"] == [{"training.steps": 1}]


def test_a_run_that_never_had_a_record_is_not_resumed(zoo: Zoo, data: Path, tmp_path: Path):
    words = (
        "pretrain",
        "bert-nano",
        data / "classify.yaml",
        "-o",
        tmp_path / "run",
        "--data",
        data,
        "training.steps=1",
    )
    assert zoo(*words).status == 0
    (tmp_path / "run" / "request.yaml").unlink()
    (tmp_path / "run" / "environment.json").unlink()
    said = zoo(*words, "--resume")
    assert said.status == 2 and "request.yaml: no such file, but --resume needs it" in said.err
    assert "an imported model has none: train that into another folder" in said.err


def test_a_run_that_cannot_save_is_refused_before_any_work(zoo: Zoo, data: Path, tmp_path: Path, run_of: RunOf):
    """It trained up to its first save, and wrote its metrics over those of the run."""
    run = shutil.copytree(run_of("mlm"), tmp_path / "run")
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").touch()
    logged = (run / "metrics.jsonl").read_bytes()
    said = zoo("pretrain", "bert-nano", data / "mlm.yaml", "-o", run, "--data", data, "--resume", "training.steps=9")
    assert said.status == 2 and "run/checkpoints: cannot be written: Not a directory" in said.err
    assert (run / "metrics.jsonl").read_bytes() == logged


def test_a_fine_tuned_run_keeps_the_hashes_of_its_base(zoo: Zoo, data: Path, tmp_path: Path, run_of: RunOf):
    base = open_run(run_of("mlm"))
    words = ("finetune", run_of("mlm"), data / "classify.yaml", "-o", tmp_path / "run", "--data", data)
    said = zoo(*words)
    assert said.status == 0, said.err
    assert "task.tokenizer is not used: finetune keeps the checkpoint's tokenizer" in said.log
    record = read_yaml(tmp_path / "run" / "request.yaml")["base"]
    manifest = json.loads((base.checkpoint.folder / "manifest.json").read_text())
    assert record["weights_sha256"] == manifest["files"]["weights.safetensors"]
    assert record["data"] == json.loads((run_of("mlm") / "data.json").read_text())
    continued = zoo(*words, "--resume", "training.steps=4")
    assert "heads.classification" in said.log and continued.status == 0
    assert "newly initialized" not in continued.log and "left out" not in continued.log
    again = ("finetune", tmp_path / "run", data / "pairs.yaml", "-o", tmp_path / "again", "--data", data)
    assert zoo(*again).status == 0
    assert read_yaml(tmp_path / "again" / "request.yaml")["base"]["base"] == record
    said = zoo("finetune", run_of("pairs"), *words[2:], "--resume")
    assert said.status == 2 and "request.yaml: base.weights_sha256: " in said.err


def test_before_the_first_checkpoint_another_tokenizer_may_be_asked_for(zoo: Zoo, data: Path, tmp_path: Path):
    run = tmp_path / "run"
    words = ("pretrain", "gpt2-nano", data / "lm.yaml", "-o", run, "--data", data, "training.steps=1")
    assert zoo(*words).status == 0
    shutil.rmtree(run / "checkpoints")  # as a kill in the first steps leaves it
    said = zoo(*words, "--resume", "task.tokenizer.vocab_size=280")
    assert said.status == 0, said.err
    assert open_run(run).config["vocab_size"] == 280
    assert len(json.loads((run / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]) == 280


def test_a_list_of_tasks_keeps_no_run_that_began_from_other_weights(
    zoo: Zoo, data: Path, tmp_path: Path, run_of: RunOf
):
    """Its table would show scores of two checkpoints, and their mean."""
    base = shutil.copytree(run_of("mlm"), tmp_path / "base")
    (tmp_path / "one.yaml").write_bytes((data / "classify.yaml").read_bytes())
    (tmp_path / "list.yaml").write_text("tasks: [one.yaml]\n")
    words = ("finetune", base, tmp_path / "list.yaml", "-o", tmp_path / "runs", "--data", data)
    assert zoo(*words).status == 0
    assert "one (1 of 1): already complete" in zoo(*words).log
    moved = shutil.copytree(base, tmp_path / "moved")  # as with its runs, to another machine
    assert "one (1 of 1): already complete" in zoo("finetune", moved, *words[2:]).log
    last = max(int(path.name) for path in (base / "checkpoints").iterdir())
    more = ("pretrain", "bert-nano", data / "mlm.yaml", "-o", base, "--data", data, "--resume")
    assert zoo(*more, f"training.steps={last + 2}").status == 0
    said = zoo(*words)
    assert said.status == 2 and "holds a run that started from other weights" in said.err


def test_a_list_of_tasks_starts_no_run_if_one_task_names_a_column_that_its_data_lacks(
    zoo: Zoo, data: Path, tmp_path: Path, run_of: RunOf
):
    """The other task mixes sources, and is refused nothing."""
    rows = "files: {train: rows.tsv}"
    for name, source, label in (("mixed", f"mix: {{a: {{{rows}}}}}", "label"), ("other", rows, "lable")):
        columns = f"columns: {{text: sentence, label: {label}}}"
        (tmp_path / f"{name}.yaml").write_text(f"objective: classification\nsource: {{{source}}}\n{columns}\n")
    (tmp_path / "list.yaml").write_text("tasks: [mixed.yaml, other.yaml]\n")
    said = zoo("finetune", run_of("mlm"), tmp_path / "list.yaml", "-o", tmp_path / "runs", "--data", data)
    assert said.status == 2 and "1 of 2 experiments cannot be run, so none is started\nother: " in said.err
    assert "unknown column 'lable' (did you mean 'label'?)" in said.err and not (tmp_path / "runs").exists()
