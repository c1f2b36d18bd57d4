"""Words that somebody added beside a published vocabulary are read as transformers reads them."""

import json
from pathlib import Path

import pytest
import transformers
from published_tokenizers import ENDING, backend, publish, said_of_options
from tokenizers import AddedToken

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.importing.tokenizer import read_tokenizer
from zoo.hub.importing.tokenizer_differences import lacking_tokens
from zoo.hub.sources.folder import CheckpointFolder
from zoo.hub.targets.declare.registry import targets

WORDS = {"<new>": 400, "NewWord": 401, "covid-19": 402}


def read(folder: Path, kind: str) -> Tokenizer:
    found = read_tokenizer(CheckpointFolder(folder), {}, targets[kind], targets[kind].classes[0])
    assert isinstance(found, Tokenizer), found
    return found


@pytest.mark.parametrize("older", [True, False])
@pytest.mark.parametrize("kind", ["bert", "gpt2", "openai-gpt"])
def test_words_beside_a_vocabulary_have_their_ids(tmp_path: Path, kind: str, older: bool):
    sides = {i: {"lstrip": i == 400, "rstrip": i == 401, "single_word": i == 402} for i in WORDS.values()}
    listed = {str(i): {"content": word, "normalized": i > 401, **sides[i]} for word, i in WORDS.items()}
    folder = publish(tmp_path, kind, **({} if older else {"added_tokens_decoder": listed}))
    if older:
        (folder / "added_tokens.json").write_text(json.dumps(WORDS))
    lines = ["a <new> b", "x<new>y", "a NewWord, newword", "COVID-19 covid-19.", "a NewWord  b", "xcovid-19y"]
    wanted = transformers.AutoTokenizer.from_pretrained(folder)(lines, add_special_tokens=False)["input_ids"]
    assert [ids.tolist() for ids in read(folder, kind).encode(lines)] == wanted
    assert {400, 401, 402} <= {i for ids in wanted for i in ids}


@pytest.mark.parametrize("named", ["BertTokenizer", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("older", [True, False])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("word", ["covid-19", "COVID-19"])  # the second is read in lower case
def test_words_that_the_tokenizers_file_lacks_are_told(tmp_path: Path, word: str, known: bool, older: bool, named: str):
    listed = {} if older else {"added_tokens_decoder": {"400": {"content": word}, "1": {"content": "[UNK]"}}}
    folder = publish(tmp_path, "bert", unk_token="[UNK]", tokenizer_class=named, **listed)
    if older:
        (folder / "added_tokens.json").write_text(json.dumps({word: 400}))
    made = backend("bert")
    made.add_tokens([AddedToken(word, normalized=True)] * known)
    split = " ".join(made.encode(word).tokens)
    made.enable_padding(length=20)  # which is no part of a text
    made.save(str(folder / "tokenizer.json"))
    assert 400 in transformers.AutoTokenizer.from_pretrained(folder)(word)["input_ids"]
    assert lacking_tokens(CheckpointFolder(folder)) == (() if known else (f"'{word}' (here '{split}')",))
    assert said_of_options(CheckpointFolder(folder), targets["bert"]) == ()


@pytest.mark.parametrize("added", [{"x": [1]}, {"\ud800x": 7}, {"x": None}])
def test_what_cannot_be_an_added_token_is_passed_over(tmp_path: Path, added: dict[str, object]):
    folder = publish(tmp_path, "bert")
    backend("bert").save(str(folder / "tokenizer.json"))
    (folder / "added_tokens.json").write_text(json.dumps(added))
    assert lacking_tokens(CheckpointFolder(folder)) == ()
    (folder / "added_tokens.json").unlink()
    listed = {str(i): {"content": word} for i, word in enumerate(added) if word != "x"}
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": listed}))
    assert lacking_tokens(CheckpointFolder(folder)) == ()


@pytest.mark.parametrize("file", ["special_tokens_map.json", "tokenizer_config.json"])
@pytest.mark.parametrize("named", [{}, {"additional_special_tokens": ["<new>", {"content": "covid-19"}]}])
def test_the_older_file_may_list_special_tokens(tmp_path: Path, named: dict[str, list[object]], file: str):
    folder = publish(tmp_path, "bert")
    (folder / "added_tokens.json").write_text(json.dumps({"[MASK]": 4, **WORDS}))
    (folder / file).write_text(json.dumps(named))
    tokenizer = read(folder, "bert")
    assert tokenizer.encode_with_roles("a [MASK] b")[1] == tokenizer.roles.mask == 4
    assert 4 not in tokenizer.encode(["a [MASK] b"])[0].tolist()
    assert (400 in tokenizer.encode(["a <new> b"])[0].tolist()) == (not named)


@pytest.mark.parametrize("content", ["{}", '{"a": "x"}', '{"a": -1}', '{"": 400}'])
def test_an_older_file_that_is_damaged_is_passed_over(tmp_path: Path, content: str):
    folder = publish(tmp_path, "bert")
    (folder / "added_tokens.json").write_text(content)
    assert read(folder, "bert").vocab_size == 400


@pytest.mark.parametrize("ahead", [True, False])
def test_a_token_that_is_asked_for_behind_texts_stands_there(tmp_path: Path, ahead: bool):
    folder = publish(tmp_path, "gpt2", add_bos_token=ahead, add_eos_token=True)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    for texts in (("add it",), ("add it", "more")):
        assert read(folder, "gpt2").backend.encode(*texts).ids == theirs(*texts).input_ids
    classifier = read_tokenizer(CheckpointFolder(folder), {}, targets["gpt2"], targets["gpt2"].classes[1])
    assert isinstance(classifier, Tokenizer) and classifier.role_tokens["extract"] == ENDING


@pytest.mark.parametrize("listed", [{}, {"added_tokens_decoder": {}}])
def test_around_texts_stand_the_tokens_that_the_older_file_names(tmp_path: Path, listed: dict[str, dict[str, str]]):
    folder = publish(tmp_path, "gpt2", add_bos_token=True, add_eos_token=True, eos_token="!", **listed)
    (folder / "special_tokens_map.json").write_text(json.dumps({"bos_token": "!", "eos_token": {"content": "#"}}))
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    assert theirs.eos_token == ("!" if listed else "#")
    for texts in (("add it",), ("add it", "more")):
        assert read(folder, "gpt2").backend.encode(*texts).ids == theirs(*texts).input_ids
