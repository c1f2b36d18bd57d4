"""A folder without a tokenizer: its model is imported, used with ids, and exported again, checked with ids alone."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from strangers import BERT, GPT2, OPUS, PLACES, T5, TOKENS, Stranger

import zoo
from versions import needs
from zoo.hub.checkpoint import load_checkpoint, resolve
from zoo.hub.exporting.export import export_model
from zoo.hub.exporting.reloading import reload
from zoo.hub.exporting.trained_model import load_trained
from zoo.hub.importing.importing import import_folder
from zoo.hub.targets.declare.registry import targets

SMALL_GPT2 = {**GPT2, "n_positions": 40, "pad_token_id": 0, "eos_token_id": 2}
APART = {"share_encoder_decoder_embeddings": False, "vocab_size": 5, "decoder_vocab_size": 37}
MODELS = [
    ("BertForMaskedLM", {**BERT, **PLACES, "pad_token_id": 0}),
    ("BertForSequenceClassification", {**BERT, **PLACES, "pad_token_id": 0, "type_vocab_size": 1}),
    ("GPT2LMHeadModel", SMALL_GPT2),
    ("T5ForConditionalGeneration", {**TOKENS, **T5}),
    ("MarianMTModel", {**TOKENS, **OPUS, "forced_eos_token_id": 1}),
    pytest.param(
        "MarianMTModel", {**TOKENS, **OPUS, **APART}, marks=needs("5.23", "its beams took the encoder's vocabulary")
    ),
]


@pytest.mark.parametrize(("name", "sizes"), MODELS)
def test_it_is_exported_again_with_the_same_tensors_and_special_tokens(
    tmp_path: Path, quick: None, name: str, sizes: dict[str, Any]
):
    Stranger(name, sizes, {}).save(tmp_path / "theirs")
    report = import_folder(tmp_path / "theirs", tmp_path / "run")
    assert any("the model reads token ids only" in line for line in report.lines())
    exported = export_model(load_trained(resolve(tmp_path / "run")), tmp_path / "out", reload=reload)
    assert exported.class_name == name and exported.check.texts == 0
    assert not [file for file in exported.files if file.startswith("tokenizer")]
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "out"))
    assert before.keys() == after.keys() - targets[report.target].tables.keys()  # their classes compute those
    assert all(torch.equal(before[key], after[key]) for key in before)
    configs = [json.loads((tmp_path / folder / "config.json").read_text()) for folder in ("theirs", "out")]
    for key in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
        if configs[1].get(key) is not None:
            assert configs[1][key] == configs[0][key]
    card = (exported.folder / "README.md").read_text()
    assert "AutoTokenizer" not in card and "it has no tokenizer, and reads token ids" in card


def test_damaged_ids_are_refused(tmp_path: Path):
    Stranger("GPT2LMHeadModel", SMALL_GPT2, {}).save(tmp_path / "theirs")
    assert load_checkpoint(tmp_path / "theirs").special.end == 2
    for content, words in (
        ("{", "roles.json: not JSON"),
        ("[]", "roles.json: expected a JSON object"),
        ('{"pad": 31}', "roles.json: pad must be an id below 31, got 31"),
        ('{"pads": 1}', r"roles.json: unknown role 'pads' \(did you mean 'pad'"),
    ):
        saved = resolve(tmp_path / "theirs")
        place = saved.folder / "roles.json"
        place.write_text(content)
        object.__setattr__(saved, "tokenizer", {"roles.json": content.encode()})
        with pytest.raises(ValueError, match=words):
            load_trained(saved)


def test_a_model_of_one_kind_of_segments_reads_pairs_as_one(build: Any, export: Any):
    report = export(build("bert-nano", {"embeddings.segments": 1, "heads": ["classification"]}))
    config = json.loads((report.folder / "config.json").read_text())
    assert config["type_vocab_size"] == 1
    assert "token_type_ids" not in (report.folder / "tokenizer_config.json").read_text()
    assert zoo.load(report.folder).settings.embeddings.segments == 1
    three = build("bert-nano", {"embeddings.segments": 3, "heads": ["classification"]})
    again = export_model(three, report.folder.with_name("three"), reload=reload)
    assert "token_type_ids" in (again.folder / "tokenizer_config.json").read_text()
