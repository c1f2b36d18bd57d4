"""Folders with a config.json, or a tokenizer.json, for each version of transformers: another file would be read."""

import json
from pathlib import Path

import pytest
import torch
import transformers
from published_tokenizers import backend, publish
from strangers import change, saved

import zoo
from zoo.hub.importing.tokenizer import read_tokenizer
from zoo.hub.sources.folder import CheckpointFolder
from zoo.hub.targets.declare.registry import targets


def test_a_config_that_names_others_is_refused(tmp_path: Path):
    folder = saved(tmp_path, "BertForMaskedLM")
    tree = json.loads((folder / "config.json").read_text())
    (folder / "config.4.0.0.json").write_text(json.dumps({**tree, "hidden_act": "relu"}))
    change(folder, configuration_files=["config.4.0.0.json"])
    assert transformers.AutoModelForMaskedLM.from_pretrained(folder).config.hidden_act == "relu"
    with pytest.raises(ValueError, match=r"configuration_files is \['config.4.0.0.json'\]; zoo imports"):
        zoo.load(folder)
    zoo.load(change(folder, configuration_files=[]))


def test_layers_with_a_config_of_their_own_are_refused(tmp_path: Path):
    folder = change(saved(tmp_path, "BertForMaskedLM"), per_layer_config={"0": {"hidden_act": "relu"}})
    with pytest.raises(ValueError, match=r"per_layer_config is .*'hidden_act': 'relu'.*; zoo imports"):
        zoo.load(folder)
    ids = torch.tensor([[3, 4, 5]])
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(change(folder, per_layer_config={})).eval()
    torch.testing.assert_close(zoo.load(folder, device="cpu")(ids).heads["masked_lm"], theirs(ids).logits)


def test_a_tokenizer_that_names_others_is_not_read(tmp_path: Path):
    publish(tmp_path, "bert", fast_tokenizer_files=["tokenizer.4.0.0.json"])
    backend("bert").save(str(tmp_path / "tokenizer.json"))
    found = read_tokenizer(CheckpointFolder(tmp_path), {}, targets["bert"], targets["bert"].classes[0])
    assert found == (
        "tokenizer_config.json has fast_tokenizer_files, from which transformers chooses by its own version"
    )
