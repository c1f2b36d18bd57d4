"""The class that reads a folder's texts: config.json may name it, and a family has one of its own."""

import json
import sys
from pathlib import Path

import pytest
import transformers
from published_tokenizers import backend, publish, said_of_options
from test_rebuilt_tokenizers import publish as publish_rules
from tokenizers import normalizers
from tokenizers.normalizers import Normalizer
from tokenizers.processors import TemplateProcessing

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.exporting.tokenizer_files import with_post_processor
from zoo.hub.importing.tokenizer import read_tokenizer
from zoo.hub.importing.tokenizer_differences import template_differences
from zoo.hub.sources.folder import CheckpointFolder
from zoo.hub.targets.declare.registry import targets

TEXTS = ("the cat", "add it")


def named_by_config(folder: Path, family: str, named: str | None) -> CheckpointFolder:
    (folder / "config.json").write_text(json.dumps({"model_type": family, "tokenizer_class": named}))
    return CheckpointFolder(folder)


def test_vocabulary_files_of_another_class_are_not_read(tmp_path: Path):
    folder = named_by_config(publish(tmp_path, "bert"), "bert", "MPNetTokenizer")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert type(theirs).__name__ == "MPNetTokenizer" and theirs.cls_token == "<s>"
    found = read_tokenizer(folder, folder.config, targets["bert"], targets["bert"].classes[0])
    assert found == "no tokenizer.json, and a tokenizer_class ('MPNetTokenizer') whose recipe zoo does not know"


@pytest.mark.parametrize("named", ["PreTrainedTokenizerFast", "BertTokenizer", None])
def test_the_class_in_the_config_says_what_stands_around_texts(tmp_path: Path, named: str | None):
    folder, bert = named_by_config(tmp_path, "bert", named), targets["bert"]
    made = backend("bert")
    made.post_processor = TemplateProcessing(
        single="[MASK] $A [SEP]", pair="[MASK] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[MASK]", 4), ("[SEP]", 3)]
    )
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"cls_token": "[CLS]", "sep_token": "[SEP]"}))
    ours = read_tokenizer(folder, folder.config, bert, bert.classes[0])
    assert isinstance(ours, Tokenizer)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert with_post_processor(ours, True, bert.classes[0]).encode(*TEXTS).ids == theirs(*TEXTS).input_ids


def test_switches_of_another_class_than_the_one_in_the_config_do_not_count(tmp_path: Path):
    backend("gpt2").save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"add_prefix_space": True}))
    for named, said in ((None, 1), ("GPT2TokenizerFast", 1), ("PreTrainedTokenizerFast", 0)):
        folder = named_by_config(tmp_path, "gpt2", named)
        tokens = transformers.AutoTokenizer.from_pretrained(tmp_path).tokenize("it")
        assert len(said_of_options(folder, targets["gpt2"])) == said == tokens[0].startswith("\u0120")


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("named", "inputs"),
    [
        ("BertTokenizer", None),
        ("BertTokenizer", ["input_ids", "attention_mask"]),
        ("BertTokenizerFast", ["input_ids", "token_type_ids", "attention_mask"]),
        ("DistilBertTokenizerFast", None),
        ("DistilBertTokenizer", ["input_ids", "token_type_ids"]),
        ("PreTrainedTokenizerFast", ["input_ids", "attention_mask"]),
        ("PreTrainedTokenizerFast", ["input_ids", "token_type_ids", "attention_mask"]),
        ("PreTrainedTokenizerFast", None),
        ("MPNetTokenizer", None),
        ("ElectraTokenizer", None),
    ],
)
def test_a_tokenizer_that_does_not_tell_the_texts_of_a_pair_apart_is_said(
    tmp_path: Path, named: str, inputs: list[str] | None, whole: bool
):
    tokens = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    publish(tmp_path, "bert", **tokens, **({} if inputs is None else {"model_input_names": inputs}))
    if whole or named.startswith(("Pre", "MPNet")):
        made = backend("bert")
        made.post_processor = TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
        made.save(str(tmp_path / "tokenizer.json"))
    folder, bert = named_by_config(tmp_path, "bert", named), targets["bert"]
    ours = read_tokenizer(folder, folder.config, bert, bert.classes[0])
    assert isinstance(ours, Tokenizer)
    typed = "token_type_ids" in transformers.AutoTokenizer.from_pretrained(tmp_path)("a", "b")
    said = () if typed else ("'[CLS] a [SEP] b [SEP]' (here '[CLS]:0 a:0 [SEP]:0 b:1 [SEP]:1')",)
    assert template_differences(folder, ours, True, bert, None) == said
    assert template_differences(folder, ours, False, bert, None) == ()  # of a model without segments


@pytest.mark.parametrize("form", [normalizers.NFC(), normalizers.NFD(), None])
def test_a_normal_form_that_a_class_leaves_out_is_said(tmp_path: Path, form: Normalizer | None):
    made, text = backend("gpt2"), "e\u0301 \u00c9"
    made.normalizer = form
    made.save(str(tmp_path / "tokenizer.json"))
    folder = named_by_config(tmp_path, "gpt2", "GPT2Tokenizer")
    differs = transformers.AutoTokenizer.from_pretrained(tmp_path).tokenize(text) != made.encode(text).tokens
    assert bool(said_of_options(folder, targets["gpt2"])) == differs == (form is not None)


@pytest.mark.parametrize("named", ["Qwen2Tokenizer", None])
@pytest.mark.parametrize("place", ["tokenizer_config.json", "config.json"])
def test_what_a_familys_own_class_makes_of_texts_is_said(tmp_path: Path, place: str, named: str | None):
    publish_rules(tmp_path, named if place == "tokenizer_config.json" else None, "marks")
    folder = named_by_config(tmp_path, "qwen3", named if place == "config.json" else None)
    assert type(transformers.AutoTokenizer.from_pretrained(tmp_path)).__name__ == "Qwen2Tokenizer"
    assert said_of_options(folder, targets["qwen3"])


def test_without_transformers_nothing_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    publish_rules(tmp_path, "LlamaTokenizer", "marks")
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert said_of_options(CheckpointFolder(tmp_path), targets["llama"]) == ()
