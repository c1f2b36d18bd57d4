"""Tokens that a folder names for its texts: a family's own class writes them, whatever tokenizer.json shows."""

import json
from pathlib import Path
from typing import Any

import pytest
import transformers
from published_tokenizers import ENDING, backend, publish
from strangers import saved
from tokenizers.processors import TemplateProcessing

import zoo
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.exporting.tokenizer_files import with_post_processor
from zoo.hub.importing.tokenizer import read_tokenizer
from zoo.hub.sources.folder import CheckpointFolder
from zoo.hub.targets.declare.registry import targets

NAMED = {"bos_token": "[UNK]", "eos_token": "[UNK]", "cls_token": "[MASK]", "sep_token": "[PAD]"}
SHOWN = TemplateProcessing(
    single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize("options", [{}, {"tokenizer_class": "BertTokenizerFast"}])
@pytest.mark.parametrize("whole", [False, True])
def test_texts_stand_between_the_tokens_that_transformers_writes(
    whole: bool, options: dict[str, Any], name: str, tmp_path: Path
):
    publish(tmp_path, "bert")
    if whole:
        made = backend("bert")
        made.post_processor = SHOWN
        made.save(str(tmp_path / "tokenizer.json"))
        (tmp_path / "vocab.txt").unlink()
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(options))
    (tmp_path / name).write_text(json.dumps(NAMED | (options if name == "tokenizer_config.json" else {})))
    bert = targets["bert"]
    ours = read_tokenizer(CheckpointFolder(tmp_path), {}, bert, bert.classes[0])
    assert isinstance(ours, Tokenizer)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for texts in (("add it",), ("add it", "one more")):
        assert with_post_processor(ours, True, bert.classes[0]).encode(*texts).ids == theirs(*texts).input_ids


@pytest.mark.parametrize("listed", [{}, {"added_tokens_decoder": {}}])
@pytest.mark.parametrize("named", [{}, {"sep_token": "[SEP]"}])
def test_the_older_file_goes_before_the_newer_one_that_lists_no_tokens(
    tmp_path: Path, named: dict[str, str], listed: dict[str, Any]
):
    publish(tmp_path, "bert", **named, **listed)
    older = {"sep_token": {"content": "[MASK]", "lstrip": False}, "cls_token": "[UNK]"}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(older))
    bert = targets["bert"]
    ours = read_tokenizer(CheckpointFolder(tmp_path), {}, bert, bert.classes[0])
    assert isinstance(ours, Tokenizer)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert with_post_processor(ours, True, bert.classes[0]).encode("add it").ids == theirs("add it").input_ids
    assert ours.role_tokens["separator"] == ("[SEP]" if listed else "[MASK]")


@pytest.mark.parametrize(
    ("kind", "named"), [("bert", {"__type": "AddedToken", "content": "[ODD]"}), ("openai-gpt", "<odd>")]
)
def test_what_no_token_spells_is_the_token_that_the_folder_names(tmp_path: Path, kind: str, named: Any):
    publish(tmp_path, kind, unk_token=named)
    file = next(tmp_path.glob("vocab.*"))
    file.write_text(file.read_text("utf-8").replace("[UNK]", "[ODD]").replace("<unk>", "<odd>"), "utf-8")
    ours = read_tokenizer(CheckpointFolder(tmp_path), {}, targets[kind], targets[kind].classes[0])
    assert isinstance(ours, Tokenizer)
    wanted = transformers.AutoTokenizer.from_pretrained(tmp_path)("a ☃ b", add_special_tokens=False).input_ids
    assert len(wanted) == 3 and ours.encode(["a ☃ b"])[0].tolist() == wanted


def test_of_several_ends_that_of_the_older_file_is_the_tokenizers_own(tmp_path: Path):
    publish(tmp_path, "gpt2")
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"eos_token": "#"}))
    assert transformers.AutoTokenizer.from_pretrained(tmp_path).eos_token == "#"
    ids = {token: backend("gpt2").token_to_id(token) for token in "!#"}
    gpt2 = targets["gpt2"]
    ours = read_tokenizer(CheckpointFolder(tmp_path), {"eos_token_id": [*ids.values()]}, gpt2, gpt2.classes[0])
    assert isinstance(ours, Tokenizer) and ours.roles.end == ids["#"]


def test_a_mask_token_that_also_surrounds_texts_is_refused(tmp_path: Path):
    saved(tmp_path, "BertForMaskedLM", vocab_size=400)
    publish(tmp_path, "bert", only_vocabulary=True, mask_token="[SEP]")
    with pytest.raises(ValueError, match=r"\[SEP\] is the tokenizer's token for both 'mask' and 'separator'"):
        zoo.pipeline(tmp_path)("the [SEP]")


def test_tokens_that_a_class_names_are_special_though_no_text_is_written_with_them(tmp_path: Path):
    folder, bert = CheckpointFolder(publish(tmp_path, "bert")), targets["bert"]
    ours = read_tokenizer(folder, {}, bert, bert.classes[0])
    assert isinstance(ours, Tokenizer)
    assert ours.special_tokens == {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"} == {*ours.role_tokens.values()}


def test_the_first_token_may_be_named_by_its_id_and_an_id_that_no_vocabulary_has_names_none(tmp_path: Path):
    backend("gpt2").save(str(tmp_path / "tokenizer.json"))
    llama = targets["llama"]
    ids = {"eos_token_id": 0, "bos_token_id": 2**40, "pad_token_id": -1}
    ours = read_tokenizer(CheckpointFolder(tmp_path), ids, llama, llama.classes[0])
    assert isinstance(ours, Tokenizer) and ours.role_tokens == dict.fromkeys(("pad", "start", "end"), ENDING)


@pytest.mark.parametrize(
    ("kind", "number", "single", "pair", "same"),
    [
        ("modernbert", 0, "[CLS] $A [SEP]", "[CLS] $A [SEP] [SEP] $B [SEP]", 1),  # pairs as RoBERTa has them
        ("gpt2", 1, f"{ENDING} $A ?", f"{ENDING} $A ! $B ?", 2),  # of a classifier
    ],
)
def test_tokens_that_only_a_template_shows_surround_texts(
    kind: str, number: int, single: str, pair: str, same: int, tmp_path: Path
):
    made = backend(kind.removeprefix("modern"))
    named = {token: made.token_to_id(token) for token in pair.split() if not token.startswith("$")}
    made.post_processor = TemplateProcessing(single=single, pair=pair, special_tokens=[*named.items()])
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    target = targets[kind]
    ours = read_tokenizer(CheckpointFolder(tmp_path), {"pad_token_id": 0}, target, target.classes[number])
    assert isinstance(ours, Tokenizer) and ours.special_tokens >= named.keys()
    written = with_post_processor(ours, False, target.classes[number])
    for texts in (("add it",), ("add it", "more"))[:same]:
        assert written.encode(*texts).ids == made.encode(*texts).ids


def test_a_token_of_unknown_words_that_the_vocabulary_lacks_is_refused_by_folder_and_key(tmp_path: Path):
    folder = CheckpointFolder(publish(tmp_path, "bert", unk_token="[NONE]"))
    words = (tmp_path / "vocab.txt").read_text("utf-8").splitlines()
    (tmp_path / "vocab.txt").write_text("\n".join(f"{word}_" if word == "a" else word for word in words), "utf-8")
    with pytest.raises(ValueError, match=rf"{tmp_path}: its tokenizer cannot read a text; .* unk_token"):
        read_tokenizer(folder, {}, targets["bert"], targets["bert"].classes[0])
