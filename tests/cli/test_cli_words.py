"""Claims about words that are checked before torch is imported, and about trailing changes."""

import dataclasses
import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import typer
from commands import Said

from zoo.cli.preflight import FLAGS, check_words, section_keys, split_words
from zoo.cli.table import COMMANDS
from zoo.config import parse_set
from zoo.data.task import Task
from zoo.data.task_list import ListedTask
from zoo.experiments.resolve import resolve_model_alone
from zoo.hub.api import load
from zoo.lazy_import import import_object
from zoo.models.generation.settings import GenerateSettings
from zoo.models.kinds.part import PARTS
from zoo.models.settings import ModelSettings
from zoo.runs.saved import open_run
from zoo.strict_yaml import read_yaml
from zoo.training.settings import OF_OPTIMIZER, Training

Zoo = Callable[..., Said]


def names(cls: type) -> set[str]:
    return {field.name for field in dataclasses.fields(cls)}


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "closed/run", "a"),
        ("finetune", "closed/run", "pydocs-topic", "-o", "new"),
        ("import", "closed/run", "new"),
        ("import", "closed", "new"),
        ("check", "closed/run"),
        ("show", "closed/model.yaml"),
        ("show", "bert-nano", "closed/task.yaml"),
    ],
)
def test_what_lies_in_a_folder_that_nobody_may_enter_is_a_wrong_request(
    zoo: Zoo, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stat = Path.stat

    def enter(path: Path, **options: bool) -> os.stat_result:  # who runs tests may enter any folder
        if "closed" in [folder.name for folder in path.parents]:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **options)

    (tmp_path / "closed").mkdir()
    monkeypatch.setattr(Path, "stat", enter)
    monkeypatch.chdir(tmp_path)
    said = zoo(*words)
    assert said.status == 2 and [path.name for path in tmp_path.iterdir()] == ["closed"]
    assert re.search(r"^error: \S*closed/\S*: cannot be read: Permission denied\n$", said.err)


def test_the_keys_read_from_the_source_are_those_of_the_settings():
    stacks = {name for slot in PARTS.values() for kind in slot.names() for name in names(slot[kind].Settings)}
    assert set(section_keys("")) == names(ModelSettings) | stacks
    assert set(section_keys("task")) == names(Task) | names(ListedTask)
    assert set(section_keys("generate")) == names(GenerateSettings)
    assert set(section_keys("training")) == names(Training) | set(OF_OPTIMIZER)


@pytest.mark.parametrize("command", COMMANDS)
def test_options_without_a_value_are_known(command: str):
    app = typer.Typer(add_completion=False)
    app.command()(import_object(COMMANDS[command][0]))
    options = [p for p in typer.main.get_command(app).params if p.param_type_name == "option"]
    flags = {word for option in options if getattr(option, "is_flag", False) for word in option.opts}
    assert flags <= set(FLAGS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("source=x", r"--set source: unknown key 'source' \(did you mean 'task.source'\?\); allowed: vocab_size, "),
        ("stpes=4", r"unknown key 'stpes' \(did you mean 'training.steps'\?\)"),
        ("beams=4", r"did you mean 'generate.beams'"),
        ("droput=0", r"did you mean 'dropout'"),
        ("traning.steps=4", r"did you mean 'training'"),
        ("d_model", "expected key=value, such as training.steps=1000"),
        ("training.stepz=3", r"--set training.stepz: unknown key 'stepz' \(did you mean 'steps'\?\)"),
        ("training={stepz: 3}", r"--set training.stepz: unknown key 'stepz' \(did you mean 'steps'\?\)"),
        ("task.lengt=3", r"--set task.lengt: unknown key 'lengt' \(did you mean 'length'\?\)"),
        ("generate.beam=2", r"--set generate.beam: unknown key 'beam' \(did you mean 'beams'\?\)"),
    ],
)
def test_a_wrong_key_is_answered_with_its_full_name(text: str, words: str):
    with pytest.raises(ValueError, match=words):
        check_words("pretrain", ["gpt2-nano", "pydocs-lm", "-o", "run", "--set", text])


@pytest.mark.parametrize(
    "text",
    ["training.optimizer.eps=1", "training.eps=1", "training={betas: [0, 1]}", "training.schedule=none-such"]
    + ["task.source.hub=a/b", "task.objective.mine.share=1", "generate={beams: 2}", "encoder.norm=rmsnrm"],
)
def test_keys_that_the_late_check_may_accept_pass(text: str):
    check_words("pretrain", ["gpt2-nano", "pydocs-lm", "-o", "run", text])


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_command_that_generates_refuses_other_changes_at_once(command: str, tmp_path: Path):
    with pytest.raises(ValueError, match=r"unknown key 'temprature' \(did you mean 'temperature'\?\)"):
        check_words(command, [str(tmp_path), "--set", "generate.temprature=1"])
    with pytest.raises(ValueError, match=f"--set task.length: zoo {command} does not read it; allowed: generate.…"):
        check_words(command, [str(tmp_path), "--set=task.length=1"])
    check_words(command, [str(tmp_path), "--set", "generate.temperature=hot"])


@pytest.mark.parametrize("text", ["task.foo=1", "task.length=4", "generate.beams=2"])
def test_settings_of_a_task_need_a_task(text: str):
    with pytest.raises(ValueError, match="need a TASK: zoo show MODEL TASK"):
        check_words("show", ["bert-tiny", text])
    with pytest.raises(ValueError, match="need a TASK: zoo show MODEL TASK"):
        resolve_model_alone("bert-tiny", [parse_set(text)])


@pytest.mark.parametrize(("text", "words"), [("stepz=3", "unknown key 'stepz'"), ("warmup_steps=1.5", "must be whole")])
def test_a_model_alone_has_its_training_checked(text: str, words: str):
    with pytest.raises(ValueError, match=rf"training\..*{words}"):
        resolve_model_alone("bert-tiny", [parse_set(f"training.{text}")])
    resolve_model_alone("bert-tiny", [parse_set("training.epochs=3")])


def test_words_options_and_changes_are_told_apart():
    given = ["gpt2", "task", "-o", "run", "a=1", "--resume", "--set", "b=2", "--set=c=3", "--data=x", "d=4"]
    assert split_words(given, 2) == (["gpt2", "task"], ["a=1", "b=2", "c=3", "d=4"])
    assert split_words(["--", "gpt2", "a=1"], 1) == (["gpt2"], ["a=1"])
    assert split_words(["gpt2", "d=1/task.yaml", "a=1"], 2) == (["gpt2", "d=1/task.yaml"], ["a=1"])
    assert split_words(["-orun", "--set", "b=2", "gpt2", "task"], 2) == (["gpt2", "task"], ["b=2"])
    assert split_words(["run", "a=1", "--pair", "b", "--", "--set"], None) == (["run", "a=1", "--set"], [])
    assert split_words(["--json", "run", "-", "--", "--", "-o"], None) == (["run", "-", "--", "-o"], [])


def test_what_is_right_and_any_question_for_help_pass():
    check_words("pretrain", ["no-such-model", "--help"])
    check_words("check", ["numbers-words"])
    check_words("show", ["bert-tiny", "numbers-words", "task.length=32"])


def test_a_missing_checkpoint_names_its_neighbor(tmp_path: Path):
    (tmp_path / "first").mkdir()
    with pytest.raises(ValueError, match=r"frist: no such file or folder \(did you mean 'first'\?\)"):
        check_words("predict", [str(tmp_path / "frist"), "text"])
    with pytest.raises(ValueError, match="frist: no such file or folder"):
        check_words("check", [str(tmp_path / "frist"), "--json"])
    check_words("predict", ["hub:org/name", "text"])


def test_a_missing_checkpoint_of_a_run_names_those_that_are_there(tmp_path: Path):
    for name in ("9", "100", ".partial-7"):
        (tmp_path / "run" / "checkpoints" / name).mkdir(parents=True)
    for command in ("export", "check"):
        with pytest.raises(ValueError, match=r"no checkpoint '7' in .*run; available: 100, 9$"):
            check_words(command, [str(tmp_path / "run" / "checkpoints" / "7"), "folder"])


@pytest.mark.parametrize(
    "words",
    [
        "pretrain gpt2-nao pydocs-lm -o r",
        "finetune runs/no sst2 -o r",
        "show bert-tiny --set droput=0",
        "show bert-tiny training.stepz=3",
    ],
)
def test_a_typo_is_answered_before_torch_is_imported(words: str):
    listed = "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules))"
    code = f"{listed}; from zoo.cli.main import main; main({words.split()!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "False\n") and done.stderr.startswith("error: ")


def test_trailing_words_are_changes(zoo: Zoo, data: Path, tmp_path: Path):
    words = ("pretrain", "bert-nano", data / "classify.yaml", "dropout=0", "-o", tmp_path / "run", "--data", data)
    assert zoo(*words, "training.steps=1", "training.seed=4").status == 0
    assert read_yaml(tmp_path / "run" / "config.yaml")["dropout"] == 0
    assert read_yaml(tmp_path / "run" / "training.yaml")["seed"] == 4
    shown = zoo("show", "bert-nano", "n_layers=1", "--json").json["settings"]
    assert shown["model.encoder.n_layers"] == {"value": 1, "from": "--set"}


def test_pretraining_goes_on_from_a_checkpoint_with_its_tokenizer(
    zoo: Zoo, data: Path, tmp_path: Path, run_of: Callable[[str], Path]
):
    words = ("pretrain", data / "mlm.yaml", "--from", run_of("mlm"), "-o", tmp_path / "run", "--data", data)
    said = zoo(*words, "training.steps=1", "training.learning_rate=1e-9")
    assert said.status == 0 and "newly initialized" not in said.err, said.err
    before, after = open_run(run_of("mlm")), open_run(tmp_path / "run")
    assert before.tokenizer == after.tokenizer
    assert all(torch.allclose(before.weights[name], tensor, atol=1e-6) for name, tensor in after.weights.items())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("bert-nano -o RUN", "TASK is missing: give MODEL and TASK, or TASK and --from CHECKPOINT"),
        ("pydocs-ml --from HERE -o RUN", "unknown task 'pydocs-ml' .did you mean 'pydocs-mlm'"),
        ("bert-nano pydocs-mlm --from=HERE -o RUN", "pydocs-mlm: with --from there is no MODEL: give TASK"),
        ("bert-nano pydocs-mlm --from HERE -o RUN", "with --from there is no MODEL"),
        ("pydocs-mlm --from HERE -o RUN trainin.steps=3", "unknown key 'trainin' .did you mean 'training"),
    ],
)
def test_words_of_pretraining_that_do_not_fit_are_refused(zoo: Zoo, tmp_path: Path, words: str, said: str):
    found = zoo("pretrain", *words.replace("HERE", str(tmp_path)).replace("RUN", str(tmp_path / "run")).split())
    assert found.status == 2 and re.search(said, found.err), found.err


def test_show_with_a_task_prints_what_a_run_would_resolve_to(zoo: Zoo):
    shown = zoo("show", "bert-nano", "pydocs-topic", "training.batch=3").out
    assert re.search(r"training.batch: +3 +--set *\n", shown)
    assert re.search(r"training.learning_rate: +0.001 +tasks/pydocs-topic.yaml *\n", shown)
    assert re.search(r"training.steps: +null +data *\n", shown) and re.search(
        r"model.vocab_size: +300 +tokenizer *\n", shown
    )
    assert "data, tokenizer: decided when a run begins" in shown


@pytest.mark.parametrize("output", ["", " "])
@pytest.mark.parametrize(
    "words",
    [
        "pretrain bert-nano pydocs-lm -o",
        "finetune HERE pydocs-lm -o",
        "attend HERE text -o",
        "export HERE",
        "import HERE",
    ],
)
def test_an_empty_output_path_is_refused(
    zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, output: str
):
    monkeypatch.chdir(tmp_path)
    said = zoo(*words.replace("HERE", str(tmp_path)).split(), output)
    assert said.status == 2 and "it is empty; give a path" in said.err
    assert ("'-o' / '--output'" if "-o" in words else "'RUN'" if "import" in words else "'DIR'") in said.err


@pytest.mark.parametrize(
    "words", ["predict", "export", "import", "check", "tokenize pydocs-topic --tokenizer", "evaluate HERE --data"]
)
def test_an_empty_path_is_not_the_working_directory(
    zoo: Zoo, run_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, words: str
):
    monkeypatch.chdir(run_of("mlm"))
    said = zoo(*words.replace("HERE", str(run_of("mlm"))).split(), "", *(["new"] if words in "export import" else []))
    assert said.status == 2 and "it is empty; give a path" in said.err
    with pytest.raises(ValueError, match="^path: it is empty"):
        load("")


def test_a_working_directory_that_was_deleted_is_a_wrong_request(
    zoo: Zoo, run_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    said = zoo("check", run_of("mlm"))
    monkeypatch.chdir(tmp_path)
    assert said.status == 2 and said.err == "error: the working directory was deleted; change to another one (cd)\n"


def test_a_tilde_is_the_home_wherever_a_path_is_written(
    zoo: Zoo, data: Path, run_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "data").symlink_to(data)
    (tmp_path / "home" / "mlm").symlink_to(run_of("mlm"))
    (tmp_path / "home" / "some.vec").write_text(f"cat {' '.join(['0.5'] * 32)}\n")
    sets = ("task.tokenizer.from=~/mlm", "embeddings.vectors=~/some.vec", "training.steps=1")
    said = zoo("pretrain", "bert-nano", "~/data/mlm.yaml", "--data=~/data", "--output=~/run", *sets)
    assert said.status == 0, said.err
    assert (tmp_path / "home" / "run" / "config.yaml").is_file() and not (tmp_path / "~").exists()


@pytest.mark.parametrize(
    "words",
    ["predict HERE a", "check HERE", "attend HERE a -o maps.html", "export HERE out", "import HERE out",
     "finetune HERE mlm.yaml -o out", "pretrain mlm.yaml --from HERE -o out"],
)  # fmt: skip
def test_the_home_of_nobody_is_no_such_folder(zoo: Zoo, data: Path, monkeypatch: pytest.MonkeyPatch, words: str):
    monkeypatch.chdir(data)
    said = zoo(*words.replace("HERE", "~nobody-of-this-name/run").split())
    assert said.status == 2 and "~nobody-of-this-name/run: no such f" in said.err
