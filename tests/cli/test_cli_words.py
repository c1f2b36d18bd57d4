"""Claims about words that are checked before torch is imported, and about trailing changes."""

import dataclasses
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from commands import Said

from zoo.cli.early import FLAGS, check_words, declared, split_words
from zoo.cli.table import COMMANDS, load
from zoo.config import read_yaml
from zoo.data.task import Task
from zoo.models.generation.settings import GenerateSettings
from zoo.models.kinds.part import PARTS
from zoo.models.settings import ModelSettings
from zoo.training.settings import Training

Zoo = Callable[..., Said]


def names(cls: type) -> set[str]:
    return {field.name for field in dataclasses.fields(cls)}


def test_the_keys_read_from_the_source_are_those_of_the_settings():
    stacks = {name for slot in PARTS.values() for kind in slot.names() for name in names(slot[kind].Settings)}
    assert set(declared("")) == names(ModelSettings) | stacks
    for section, settings in (("task", Task), ("training", Training), ("generate", GenerateSettings)):
        assert set(declared(section)) == names(settings)


@pytest.mark.parametrize("command", COMMANDS)
def test_options_without_a_value_are_known(command: str):
    app = typer.Typer(add_completion=False)
    app.command()(load(COMMANDS[command][0]))
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
    ],
)
def test_a_wrong_key_is_answered_with_its_full_name(text: str, words: str):
    with pytest.raises(ValueError, match=words):
        check_words("pretrain", ["gpt2-nano", "pydocs-lm", "-o", "run", "--set", text])


def test_words_options_and_changes_are_told_apart():
    given = ["gpt2", "task", "-o", "run", "a=1", "--resume", "--set", "b=2", "--set=c=3", "--data=x", "d=4"]
    assert split_words("pretrain", given) == (["gpt2", "task"], ["a=1", "b=2", "c=3", "d=4"])
    assert split_words("predict", ["run", "a=1", "--pair", "b", "--", "--set"]) == (["run", "a=1", "--set"], [])


def test_a_missing_checkpoint_names_its_neighbour(tmp_path: Path):
    (tmp_path / "first").mkdir()
    with pytest.raises(ValueError, match=r"frist: no such file or folder \(did you mean 'first'\?\)"):
        check_words("predict", [str(tmp_path / "frist"), "text"])
    with pytest.raises(ValueError, match="frist: no such file or folder"):
        check_words("check", [str(tmp_path / "frist"), "--json"])
    check_words("predict", ["hub:org/name", "text"])


@pytest.mark.parametrize(
    "words", ["pretrain gpt2-nao pydocs-lm -o r", "finetune runs/no sst2 -o r", "show bert-tiny --set droput=0"]
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


def test_show_with_a_task_prints_what_a_run_would_resolve_to(zoo: Zoo):
    shown = zoo("show", "bert-nano", "pydocs-topic", "training.batch=3").out
    assert re.search(r"training.batch: +3 +--set *\n", shown)
    assert re.search(r"training.learning_rate: +0.001 +tasks/pydocs-topic.yaml *\n", shown)
    assert re.search(r"training.steps: +null +data *\n", shown) and re.search(
        r"model.vocab_size: +300 +tokenizer *\n", shown
    )
    assert "data, tokenizer: decided when a run begins" in shown


@pytest.mark.parametrize("output", ["", " "])
def test_a_run_without_a_folder_is_refused(zoo: Zoo, data: Path, output: str):
    said = zoo("pretrain", "bert-nano", data / "classify.yaml", "-o", output, "--data", data)
    assert said.status == 2 and "-o: names no folder; give the folder of the run, such as -o runs/first" in said.err
