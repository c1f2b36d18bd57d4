"""The card of a model that was imported claims no training: nobody knows here how it was made."""

import json
from pathlib import Path

import pytest
from published_tokenizers import publish
from strangers import saved

from zoo.hub.checkpoint import import_checkpoint, resolve
from zoo.hub.exporting.export import export_model
from zoo.hub.exporting.reloading import reload
from zoo.hub.exporting.trained_model import load_trained
from zoo.runs.saved import open_run


def folder_of(place: Path) -> Path:
    folder = saved(place, "GPT2LMHeadModel", vocab_size=400, eos_token_id=0, bos_token_id=0)
    return publish(folder, "gpt2", only_vocabulary=True)


def test_an_imported_runs_card_says_that_nothing_is_known(tmp_path: Path):
    import_checkpoint(folder_of(tmp_path / "hf"), tmp_path / "mine")
    trained = load_trained(open_run(tmp_path / "mine"))
    assert trained.history.is_imported
    export_model(trained, tmp_path / "out", reload=reload)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "\n# mine\n" in card and "It was imported with zoo; its data and training are unknown here" in card
    assert not any(
        words in card
        for words in ("rained with zoo", "rained for", "## Data", "## Training", "pack: true", "not measured")
    )
    assert "## How to use it" in card and "## Limitations" in card and "## Check" in card
    told = json.loads((tmp_path / "out" / "config.json").read_text())
    assert told["architectures"] == ["GPT2LMHeadModel"]


def test_the_card_of_a_folder_that_is_exported_at_once_has_its_name(tmp_path: Path):
    export_model(load_trained(resolve(folder_of(tmp_path / "my-gpt"))), tmp_path / "out", reload=reload)
    assert "\n# my-gpt\n" in (tmp_path / "out" / "README.md").read_text()


def test_a_folder_whose_name_begins_as_a_home_does_keeps_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder_of(tmp_path / "~nobody-of-this-name" / "my-gpt")
    monkeypatch.chdir(tmp_path)
    assert resolve("~nobody-of-this-name/my-gpt").folder.name == "my-gpt"
