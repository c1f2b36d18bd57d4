"""Folders whose tokenizer_class takes nothing but the vocabulary of tokenizer.json, as Llama's in transformers 5."""

import json
from functools import partial
from pathlib import Path

import pytest
import transformers
from published_tokenizers import said_of_options
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from zoo.data.tokenizers.tokenizer import Tokenizer as OurTokenizer
from zoo.hub.importing.tokenizer import read_tokenizer
from zoo.hub.importing.tokenizer_differences import (
    COMPOSED_SAMPLE,
    SAMPLE,
    lacking_tokens,
    rebuilt_backend,
    tokenizer_differences,
)
from zoo.hub.sources.folder import CheckpointFolder
from zoo.hub.targets.declare.registry import targets

SPECIAL = ["<unk>", "<s>", "</s>"]
MARK = "\u2581"


def publish(folder: Path, named: str | None, rules: str, **options: object) -> Path:
    made = Tokenizer(models.Unigram() if rules == "pieces" else models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(False) if rules == "bytes" else pre_tokenizers.Metaspace()
    made.decoder = decoders.ByteLevel() if rules == "bytes" else decoders.Metaspace()
    texts = ["Ab a b the cat sat on the mat in 2000", "\u00c9 \u00e9 e\u0301 \u6f22\u5b57"]
    sizes = {"vocab_size": 300, "special_tokens": SPECIAL, "show_progress": False}
    kind = partial(trainers.UnigramTrainer, unk_token="<unk>") if rules == "pieces" else trainers.BpeTrainer
    made.train_from_iterator(texts, kind(**sizes))
    if rules == "marks":  # as Llama 2's file has it
        made.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
        spec = {**json.loads(made.to_str()), "pre_tokenizer": None}
    else:
        spec = json.loads(made.to_str())
    (folder / "tokenizer.json").write_text(json.dumps(spec), "utf-8")
    names = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", **options}
    names |= {} if named is None else {"tokenizer_class": named}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    return folder


@pytest.mark.parametrize(
    ("family", "named", "rules", "options"),
    [
        ("llama", "LlamaTokenizer", "marks", {}),
        ("mistral", "LlamaTokenizerFast", "marks", {"add_prefix_space": False}),
        ("qwen3", "Qwen2Tokenizer", "bytes", {}),
        ("llama", "CodeLlamaTokenizer", "marks", {}),
        ("llama", "GemmaTokenizer", "marks", {}),
        ("llama", "OpenAIGPTTokenizer", "bytes", {}),
        ("llama", "GPTNeoXTokenizerFast", "bytes", {}),
        ("llama", "CohereTokenizer", "bytes", {}),
        ("gpt2", "RobertaTokenizerFast", "bytes", {"add_prefix_space": True}),
        ("bert", "HerbertTokenizerFast", "bytes", {}),
        ("bert", "MPNetTokenizer", "bytes", {}),
        ("bert", "XLMRobertaTokenizer", "pieces", {"add_prefix_space": False}),
        ("bert", "CamembertTokenizer", "pieces", {"add_prefix_space": False}),
    ],
)
def test_what_the_class_makes_of_texts_is_said(
    tmp_path: Path, family: str, named: str, rules: str, options: dict[str, object]
):
    folder = publish(tmp_path, named, rules, **options)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ours = Tokenizer.from_file(str(folder / "tokenizer.json"))
    pairs = [
        (theirs.tokenize(text), ours.encode(text, add_special_tokens=False).tokens)
        for text in (SAMPLE, COMPOSED_SAMPLE)
    ]
    expected = tuple(f"'{' '.join(one)}' (here '{' '.join(other)}')" for one, other in pairs if one != other)
    assert expected and said_of_options(CheckpointFolder(folder), targets[family]) == expected


@pytest.mark.parametrize(
    ("family", "rules", "normalizer"), [("qwen3", "bytes", {"type": "NFC"}), ("t5", "pieces", None)]
)
def test_numbers_and_spaces_that_only_the_class_splits_are_said(
    tmp_path: Path, family: str, rules: str, normalizer: dict[str, str] | None
):
    path = publish(tmp_path, None, rules) / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "normalizer": normalizer}), "utf-8")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    theirs, ours = transformers.AutoTokenizer.from_pretrained(tmp_path), Tokenizer.from_file(str(path))
    for text, alike in (("Ab the", True), ("in  2000", False)):
        assert (theirs.tokenize(text) == ours.encode(text, add_special_tokens=False).tokens) == alike
    (said,) = said_of_options(CheckpointFolder(tmp_path), targets[family])
    assert said.startswith("'") and " (here '" in said


@pytest.mark.parametrize("named", ["RobertaTokenizer", "RobertaTokenizerFast", "XLMRobertaTokenizer", "Qwen2Tokenizer"])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_special_tokens_that_only_the_class_adds_are_said(tmp_path: Path, family: str, named: str):
    publish(tmp_path, named, "pieces" if named.startswith("XLM") else "bytes")
    folder, target = CheckpointFolder(tmp_path), targets[family]
    ours = read_tokenizer(folder, {}, target, target.classes[0])
    assert isinstance(ours, OurTokenizer)
    ids = transformers.AutoTokenizer.from_pretrained(tmp_path)("a").input_ids
    adds = (ids[0], ids[-1]) == (ours.vocabulary["<s>"], ours.vocabulary["</s>"])
    assert adds == ("Roberta" in named)
    assert tokenizer_differences(folder, ours, False, target)[0] == (("'<s> a </s>' (here 'a')",) if adds else ())


@pytest.mark.parametrize("named", [None, "PreTrainedTokenizerFast", "TokenizersBackend", "AlienTokenizer", 7])
def test_other_classes_follow_the_file(tmp_path: Path, named: str | None):
    folder = publish(tmp_path, named, "marks")
    assert said_of_options(CheckpointFolder(folder), targets["llama"]) == ()


def test_a_folder_that_the_class_cannot_read_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*given: object, **named: object) -> None:
        raise KeyError("merges")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", fail)
    folder = publish(tmp_path, "LlamaTokenizer", "marks")
    assert said_of_options(CheckpointFolder(folder), targets["llama"]) == ()


@pytest.mark.parametrize("family", ["llama", "t5"])
def test_a_tokenizer_that_cannot_read_a_sample_is_passed_over(tmp_path: Path, family: str):
    folder = publish(tmp_path, "BertTokenizer", "bytes", unk_token=None)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    with pytest.raises(Exception, match="WordPiece error"):  # its vocabulary has no token for unknown words
        theirs.tokenize(SAMPLE)
    assert said_of_options(CheckpointFolder(folder), targets[family]) == ()
    made = Tokenizer(models.WordPiece({"a": 0, "[NEW]": 1}, unk_token="[UNK]"))
    made.save(str(folder / "tokenizer.json"))
    (folder / "added_tokens.json").write_text(json.dumps({"[NEW]": 1}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer"}))
    assert said_of_options(CheckpointFolder(folder), targets[family]) == ()
    assert lacking_tokens(CheckpointFolder(folder)) == ()


def test_a_class_that_cannot_read_a_letter_is_passed_over(tmp_path: Path):
    Tokenizer(models.WordPiece({"b": 0, "c": 1}, unk_token="c")).save(str(tmp_path / "tokenizer.json"))
    options = {"tokenizer_class": "BertTokenizer", "unk_token": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(options))
    with pytest.raises(Exception, match="WordPiece error"):
        transformers.AutoTokenizer.from_pretrained(tmp_path)("a")
    assert rebuilt_backend(CheckpointFolder(tmp_path), targets["llama"]) is None
