"""zoo import, and commands that are given a Hugging Face folder."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from commands import Said
from safetensors.torch import load_file, save_file

from zoo.cli.output import escape_controls
from zoo.data.task import read_task
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.exporting.export import export_model, write_files
from zoo.hub.exporting.reloading import reload
from zoo.hub.exporting.trained_model import TrainedModel, TrainingHistory
from zoo.hub.importing import importing
from zoo.hub.sources.headers import WEIGHTS_FILE
from zoo.hub.targets.declare.registry import targets
from zoo.models.model import Model
from zoo.models.settings import load_settings
from zoo.runs.run import Run

Zoo = Callable[..., Said]
TEXT = "the red dog sees a small blue cat in the big house"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Hugging Face folder with a small BERT and its tokenizer."""
    tokenizer = Tokenizer.train(tokenizers.parse({"name": "wordpiece", "vocab_size": 90}), [TEXT] * 3)
    sets = [(("vocab_size",), tokenizer.vocab_size), (("heads",), ["masked_lm"])]
    model = Model(load_settings("bert-nano", sets)).initialize(0)
    task = read_task({"objective": "masked_lm", "source": {}}, "task.yaml")
    given = TrainedModel(model, tokenizer, task, TrainingHistory("bert"))
    chosen = targets["bert"].native_class(given.settings)
    assert chosen is not None
    (tmp_path / "hf").mkdir()
    write_files(tmp_path / "hf", given, targets["bert"], chosen)
    return tmp_path / "hf"


def test_a_folder_is_imported_and_said_to_be_what_it_is(zoo: Zoo, folder: Path, tmp_path: Path):
    said = zoo("import", str(folder), str(tmp_path / "run"))
    assert said.status == 0 and "BertForMaskedLM (bert)" in said.out
    assert (tmp_path / "run" / "checkpoints" / "0").is_dir()
    assert "tokenizer" not in said.out
    options = json.loads((folder / "tokenizer_config.json").read_text()) | {"tokenizer_class": "BertTokenizer"}
    made = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**options, "do_lower_case": False}))
    other = zoo("import", str(folder), str(tmp_path / "switched")).out
    assert "transformers follows tokenizer_config.json and gives: 'Ab É 漢 字' (here 'ab e 漢 字')" in other
    made["post_processor"] = None
    (folder / "tokenizer.json").write_text(json.dumps(made))
    (folder / "tokenizer_config.json").write_text(json.dumps({**options, "tokenizer_class": "PreTrainedTokenizerFast"}))
    bare = zoo("import", str(folder), str(tmp_path / "bare")).out
    assert (
        "its tokenizer adds special tokens, or types of tokens, in another way than zoo: 'a' (here '[CLS] a [SEP]')"
        in bare
    )
    again = zoo("import", str(folder), str(tmp_path / "run"))
    assert again.status == 2 and "already holds a run; choose another folder" in again.err


def test_a_refused_import_leaves_what_is_there(zoo: Zoo, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Another process may have begun its run in between."""

    def begun(error: Exception, run: Path, *others: object) -> None:
        run.mkdir()
        (run / ".lock").write_text(f"{os.getpid() + 1}\n")
        raise error

    for error in (ValueError("process 7 is writing to it"), OSError(errno.EIO, "a bad disk")):
        monkeypatch.setattr(importing, "create_run", partial(begun, error))
        said = zoo("import", str(folder), str(tmp_path / "run"))
        assert said.status in (1, 2) and (tmp_path / "run" / ".lock").exists()
        shutil.rmtree(tmp_path / "run")


def test_a_link_to_an_empty_folder_stays_one(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def save(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "disk").mkdir(mode=0o700)
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    monkeypatch.setattr(Run, "save", save)
    with pytest.raises(RuntimeError, match="No space left on device; nothing of it is left"):
        importing.import_folder(folder, tmp_path / "run")
    assert (tmp_path / "run").is_symlink() and not list((tmp_path / "disk").iterdir())
    assert (tmp_path / "disk").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("existed", [False, True])
def test_an_import_that_cannot_be_written_leaves_nothing(
    zoo: Zoo, folder: Path, tmp_path: Path, existed: bool, monkeypatch: pytest.MonkeyPatch
):
    def save(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run = tmp_path / "run"
    if existed:
        run.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(Run, "save", save)
        said = zoo("import", str(folder), str(run))
    assert said.status == 1 and said.err.endswith("cannot be written: No space left on device; nothing of it is left\n")
    assert not list(tmp_path.glob("run/*")) and run.is_dir() == existed
    assert zoo("import", str(folder), str(run)).status == 0


def test_a_tokenizer_with_a_slow_pattern_is_refused_before_anything_is_written(zoo: Zoo, folder: Path, tmp_path: Path):
    tree = json.loads((folder / "tokenizer.json").read_text())
    pattern = {"Regex": "(?:.|.)" * 22 + r"\b\B"}
    tree["pre_tokenizer"] = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    (folder / "tokenizer.json").write_text(json.dumps(tree))
    said = zoo("import", str(folder), str(tmp_path / "run"))
    assert said.status == 2 and "tokenizer.json" in said.err and "may take forever" in said.err
    assert "Traceback" not in said.err and not (tmp_path / "run").exists()


def test_a_folder_is_predicted_with_directly(zoo: Zoo, folder: Path):
    said = zoo("predict", str(folder), "the red [MASK]", "--json")
    assert said.status == 0 and len(json.loads(said.out)[0]["scores"][0]) == 5


def test_a_folder_has_no_data_to_be_evaluated_on_and_a_missing_one_is_no_folder(zoo: Zoo, folder: Path):
    said = zoo("evaluate", str(folder))
    assert said.status == 2 and "sources under 'mix' (an imported model needs a TASK)" in said.err
    assert "no such file or folder" in zoo("import", "none", "run").err


def test_escape_sequences_are_shown_and_not_obeyed():
    assert escape_controls("a\x1b]0;owned\x07\n\tä\r") == "a\\x1b]0;owned\\x07\n\tä\\r"
    assert escape_controls("\u202ea\u2066") == "\\u202ea\\u2066"  # which turn the order of what follows
    for text in (
        "où\u00a0?",
        "क्\u200dष",
        "می\u200cخواهم",
        "猫\u3000犬",
        "\U0001f468\u200d\U0001f469",
        "\ufeffa\u00adb",
    ):
        assert escape_controls(text) == text


def test_a_model_whose_outputs_are_not_finite_fails_in_every_command(
    zoo: Zoo, folder: Path, data: Path, tmp_path: Path
):
    tensors = load_file(folder / WEIGHTS_FILE)
    tensors["bert.encoder.layer.0.output.dense.weight"][0, 0] = 3e38  # a finite number, so the import accepts it
    save_file(tensors, folder / WEIGHTS_FILE, {"format": "pt"})
    run = str(tmp_path / "run")
    assert zoo("import", str(folder), run).status == 0
    predicted = zoo("predict", run, "the red [MASK]", "--json")
    evaluated = zoo("evaluate", run, str(data / "mlm.yaml"), "--split", "train", "--data", str(data))
    for said in (predicted, evaluated):
        assert said.status == 1 and "the model's outputs are not finite (NaN or infinite)" in said.err
        assert "zoo check" in said.err and not said.out
    exported = zoo("export", run, str(tmp_path / "out"))
    assert exported.status == 1 and "logits of masked_lm in float32 are not finite" in exported.err
    assert not (tmp_path / "out").exists()


def test_a_head_that_was_never_trained_is_not_evaluated_and_exported_with_a_warning(
    zoo: Zoo, folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(export_model, "__defaults__", (None, reload))  # checked in this process
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["BertForSequenceClassification"]}))
    run = str(tmp_path / "run")
    assert zoo("import", str(folder), run).status == 0
    said = zoo("evaluate", run, str(data / "classify.yaml"), "--data", str(data))
    assert said.status == 2 and "the head 'classification' is newly initialized" in said.err
    exported = zoo("export", run, str(tmp_path / "out"))
    assert exported.status == 0
    assert "newly initialized and never trained, so the answers are random: heads.classification\n" in exported.log
    card = (tmp_path / "out" / "README.md").read_text()
    assert "- Newly initialized and never trained, so the answers are random: classification." in card
    again = zoo("import", str(tmp_path / "out"), str(tmp_path / "again"))
    assert again.status == 0 and "newly initialized, never trained before the export: classification" in again.out
    said = zoo("evaluate", str(tmp_path / "again"), str(data / "classify.yaml"), "--data", str(data))
    assert said.status == 2 and "the head 'classification' is newly initialized" in said.err
