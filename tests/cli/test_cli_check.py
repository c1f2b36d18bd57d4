"""Claims about `zoo check`: 0 whole, 1 broken, 2 a path that is nothing."""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from commands import Said

from zoo.cli.survey_output import say_labels
from zoo.data.home import home

Zoo = Callable[..., Said]
RunOf = Callable[[str], Path]


def test_a_run_its_checkpoint_and_its_files_are_whole(zoo: Zoo, run_of: RunOf):
    run = run_of("lm")
    said = zoo("check", run, "--json")
    assert said.status == 0 and said.json["kind"] == "run" and said.json["whole"] and said.json["faults"] == []
    assert any("the model has" in remark for remark in said.json["remarks"])
    for name, kind in {"checkpoints/3": "checkpoint", "config.yaml": "model", "training.yaml": "training"}.items():
        said = zoo("check", run / name)
        assert (said.status, said.out.splitlines()[-1]) == (0, f"{run / name}: {kind}, no faults")


def test_a_checkpoint_is_whole_from_within(zoo: Zoo, run_of: RunOf, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(run_of("lm") / "checkpoints" / "3")
    for name in (".", "../3", "../../checkpoints/3"):
        said = zoo("check", name)
        assert (said.status, said.out.splitlines()[-1]) == (0, f"{name}: checkpoint, no faults")


def test_a_run_in_a_folder_called_checkpoints_is_a_run(zoo: Zoo, run_of: RunOf, tmp_path: Path):
    run = tmp_path / "checkpoints" / "my-run"
    shutil.copytree(run_of("lm"), run)
    for path, kind in {run: "run", run / "checkpoints" / "3": "checkpoint"}.items():
        said = zoo("check", path)
        assert (said.status, said.out.splitlines()[-1]) == (0, f"{path}: {kind}, no faults")
    (run / "checkpoints" / "3" / "manifest.json").unlink()
    said = zoo("check", run / "checkpoints" / "3")
    assert said.status == 1 and "manifest.json: No such file" in said.out


def test_a_checkpoint_without_its_manifest_is_a_damaged_one_from_within(
    zoo: Zoo, run_of: RunOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    checkpoint = tmp_path / "run" / "checkpoints" / "3"
    shutil.copytree(run_of("lm"), tmp_path / "run")
    (checkpoint / "manifest.json").unlink()
    monkeypatch.chdir(checkpoint)
    for name in (".", "../3"):
        said = zoo("check", name)
        assert said.status == 1 and "manifest.json: No such file" in said.out


def test_a_broken_run_says_what_is_wrong(zoo: Zoo, run_of: RunOf, tmp_path: Path):
    copy = tmp_path / "run"
    copy.mkdir()
    (copy / "checkpoints").mkdir()
    (copy / "config.yaml").write_bytes((run_of("lm") / "config.yaml").read_bytes())
    said = zoo("check", copy)
    assert said.status == 1 and "task.yaml: no such file" in said.out and " fault" in said.out.splitlines()[-1]


def test_a_fault_that_also_keeps_the_model_from_loading_is_reported_once(
    zoo: Zoo, run_of: RunOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shutil.copytree(run_of("lm"), tmp_path / "run")
    (tmp_path / "run" / "roles.json").unlink()
    monkeypatch.chdir(tmp_path)
    (fault,) = zoo("check", "run", "--json").json["faults"]
    assert fault.startswith(f"{tmp_path / 'run' / 'roles.json'}: no such file, but checkpoint 3 lists it: without it")


def test_damage_that_costs_no_weights_is_said_to(zoo: Zoo, run_of: RunOf, tmp_path: Path):
    copy = tmp_path / "run"
    shutil.copytree(run_of("lm"), copy)
    (copy / "training.yaml").write_text("steps: 4\n")
    said = zoo("check", copy)
    assert said.status == 1 and "training.yaml: damaged or changed" in said.out
    assert "no weights are lost" in said.out and ", and loads" in said.out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("base: bert-nano\nencoder: {norm: rmsnrm}\n", "unknown norm 'rmsnrm' (did you mean 'rmsnorm'?)"),
        ("base: pydocs-lm\nmetrics: [acuracy]\n", "acuracy"),
        ("base: bert-nano\nencoder: {n_layers: 1000000000}\n", "n_layers must be at most 10000, got 1000000000"),
        ("base: bert-nano\ndropout: 2\n", "dropout"),
        ("steps: 3\nbatch: none\n", "training.batch"),
        ("a: &x [1]\nb: *x\n", "aliases (*name) are not allowed"),
        ("steps: [" * 4000, "my.yaml"),
    ],
)
def test_a_file_with_a_mistake_is_broken(zoo: Zoo, tmp_path: Path, text: str, words: str):
    (tmp_path / "my.yaml").write_text(text)
    said = zoo("check", tmp_path / "my.yaml")
    assert said.status == 1 and words in said.out


def test_shipped_files_are_whole(zoo: Zoo, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ZOO_DATA", raising=False)
    root = Path(__file__).parents[2]
    for name in ("configs/bert-nano.yaml", "tasks/glue.yaml"):
        assert zoo("check", root / name).status == 0
    said = zoo("check", root / "tasks" / "wikipedia-mlm.yaml")
    assert said.status == 2 and "source.files.train: no such file 'wikipedia_en/train.jsonl.xz'; looked for" in said.err


def test_a_task_says_what_its_data_holds(zoo: Zoo, tmp_path: Path):
    (tmp_path / "train.txt").write_text("some words\nsome words\nothers\n")
    files = "source: {files: {train: train.txt, validation: train.txt}}"
    (tmp_path / "my.yaml").write_text(f"objective: causal_lm\n{files}\ntokenizer: characters\n")
    said = zoo("check", tmp_path / "my.yaml", "--data", tmp_path)
    assert said.status == 0 and "rows that repeat an earlier text of their split: train 1, validation 1" in said.out
    assert "leak: 3 rows of validation (100.00%) also in train" in said.out
    store = home() / "shards"
    assert said.out.splitlines()[-1] == f"{tmp_path / 'my.yaml'}: task, no faults; token store: {store}"
    assert zoo("check", store).status == 0
    said = zoo("check", tmp_path / "my.yaml", "--data", tmp_path, "--set", "task.length=64", "--json")
    assert [size["length"] for size in said.json["data"]["row_sizes"]] == [32, 64, 128]


def test_a_label_that_a_test_split_hides_is_shown_as_an_empty_text(capsys: pytest.CaptureFixture[str]):
    say_labels({"splits": {"test": {"labels": {"good": 3, "": 1}}}, "guessing_labels": {}})
    assert capsys.readouterr().out == "test, labels: good 75.0%, '' 25.0%\n"


def test_what_guessing_labels_reaches_is_shown_by_split(capsys: pytest.CaptureFixture[str]):
    classes = {"train": {"accuracy": 0.75, "loss": 0.5}, "validation": {"accuracy": 0.25, "loss": None}}
    for guesses in (classes, {"train": {"mse": 2.0}, "validation": {"mse": 3.0}}, {}):
        say_labels({"splits": {}, "guessing_labels": guesses})
    frequencies, mean = capsys.readouterr().out.splitlines()
    said = "train accuracy 0.750, loss 0.500; validation accuracy 0.250, loss infinite"
    assert frequencies == f"predicting from label frequencies alone: {said}"
    assert mean == "always answering the mean: train squared error 2.000; validation squared error 3.000"


@pytest.mark.parametrize(("files", "what"), [("absent.txt", "no such file"), ("absent/*.txt", "no file matches")])
def test_a_task_whose_data_is_absent_is_a_wrong_request(files: str, what: str, zoo: Zoo, tmp_path: Path):
    (tmp_path / "my.yaml").write_text(f"objective: causal_lm\nsource: {{files: {{train: {files}}}}}\n")
    for words in ((), ("--data", tmp_path)):
        said = zoo("check", tmp_path / "my.yaml", *words)
        assert said.status == 2 and not said.out and f"source.files.train: {what} '{files}'; looked for" in said.err


def test_settings_of_data_are_for_tasks(zoo: Zoo, run_of: RunOf):
    for words in (("--set", "task.length=3"), ("--data", run_of("lm"))):
        said = zoo("check", run_of("lm"), *words)
        assert said.status == 2 and "--set and --data are for a task's data" in said.err
    said = zoo("check", "sst2", "--set", "training.steps=3")
    assert said.status == 2 and "--set training.steps: zoo check does not read it; allowed: task" in said.err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("task.metrics=[bleu]", "unknown metric of classification 'bleu'"),
        ("task.training.stepz=3", "training.stepz: unknown key 'stepz' (did you mean 'steps'?)"),
        ("task.generate.beam=3", "generate: unknown key 'beam' (did you mean 'beams'?)"),
        ("task.generate.beams=3", "classification generates no text"),
    ],
)
def test_a_change_that_every_run_refuses_is_a_wrong_request(zoo: Zoo, tmp_path: Path, change: str, words: str):
    (tmp_path / "train.jsonl").write_text('{"text": "one", "label": "a"}\n{"text": "two", "label": "b"}\n')
    files = "source: {files: {train: train.jsonl, validation: train.jsonl}}"
    (tmp_path / "my.yaml").write_text(f"objective: classification\n{files}\n")
    said = zoo("check", tmp_path / "my.yaml", "--data", tmp_path)
    assert said.status == 0
    said = zoo("check", tmp_path / "my.yaml", "--data", tmp_path, "--set", change)
    assert said.status == 2 and words in said.err


def test_a_misspelled_task_names_the_nearest(zoo: Zoo):
    said = zoo("check", "sst3")
    assert said.status == 2 and "no task of that name (did you mean 'sst2'?)" in said.err


def test_a_folder_that_is_called_as_a_task_is_that_folder(zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sst2").mkdir()
    said = zoo("check", "sst2")
    assert said.status == 2 and "sst2: not a run, a checkpoint" in said.err


def test_what_is_nothing_is_a_wrong_request(zoo: Zoo, tmp_path: Path):
    assert zoo("check", tmp_path / "absent").status == 2
    said = zoo("check", tmp_path)
    assert said.status == 2 and "not a run, a checkpoint" in said.err


def test_a_folder_that_nobody_may_enter_is_a_wrong_request(zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    closed = Mock(side_effect=PermissionError(errno.EACCES, "Permission denied"))
    monkeypatch.setattr("zoo.cli.commands.check.shards_of", closed)
    said = zoo("check", tmp_path)
    assert said.status == 2 and f"{tmp_path}: cannot be read: Permission denied" in said.err


def test_a_file_of_a_models_folder_is_no_broken_model(zoo: Zoo, run_of: RunOf):
    folder = run_of("lm") / "checkpoints" / "3"
    files = [path for path in folder.iterdir() if path.suffix in (".safetensors", ".json")]
    assert len({path.suffix for path in files}) == 2
    for path in files:
        said = zoo("check", path)
        assert said.status == 2 and f"check the folder {folder}" in said.err


def test_a_list_of_tasks_is_checked_task_by_task(zoo: Zoo, tmp_path: Path):
    (tmp_path / "list.yaml").write_text("tasks: [sst2, broken.yaml]\n")
    (tmp_path / "broken.yaml").write_text("base: sst2\nmetrics: [bleu]\n")
    said = zoo("check", tmp_path / "list.yaml")
    assert said.status == 1 and "unknown metric of classification 'bleu'" in said.out


def test_the_mistake_of_a_task_is_said_with_and_without_the_place_of_its_data(zoo: Zoo, tmp_path: Path):
    mixed = "source: {mix: {a: {files: {train: a.txt}, weight: 0}}}"
    (tmp_path / "my.yaml").write_text(f"objective: causal_lm\n{mixed}\nlength: 8\n")
    for words in ((), ("--data", tmp_path)):
        said = zoo("check", tmp_path / "my.yaml", *words)
        assert said.status == 1 and "source.mix.a.weight: must be a number above 0, got 0" in said.out
