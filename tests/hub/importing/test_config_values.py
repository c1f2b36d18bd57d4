"""Single values of config.json and of tokenizer files that strangers may write."""

import json
from pathlib import Path
from typing import Any

import pytest
from published_tokenizers import ENDING, backend, publish

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.importing.config import ConfigReader, read_family, read_flat
from zoo.hub.importing.labels import LabelNames, read_labels
from zoo.hub.importing.tokenizer import added_tokens, find_backend, read_tokenizer, role_tokens
from zoo.hub.importing.tokenizer_differences import padding_in_texts
from zoo.hub.sources.folder import CheckpointFolder
from zoo.hub.targets.declare.registry import targets

CLASSIFIER = next(one for one in targets["bert"].classes if one.name == "BertForSequenceClassification")


def reader(folder: Path, **config: Any) -> ConfigReader:
    """What reads a config.json of these keys."""
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", **config}))
    return ConfigReader(CheckpointFolder(folder))


@pytest.mark.parametrize(
    ("count", "labels"),
    [
        (1, LabelNames([], "number", 1, assumed_number=True)),
        (2, LabelNames(["LABEL_0", "LABEL_1"], "one", 2)),
        (3, LabelNames(["LABEL_0", "LABEL_1", "LABEL_2"], "one", 3)),
    ],
)
def test_one_label_without_a_problem_type_is_a_number_and_more_are_classes(
    tmp_path: Path, count: int, labels: LabelNames
):
    assert read_labels(reader(tmp_path, num_labels=count), CLASSIFIER) == labels
    assert read_labels(reader(tmp_path), CLASSIFIER).count == 2  # as transformers' config class has it


@pytest.mark.parametrize("count", ["3", True, 2.0, None, -1, 0, 2**40])
def test_a_number_of_labels_that_is_none_is_refused(tmp_path: Path, count: Any):
    with pytest.raises(ValueError, match=rf"num_labels must be 1 to 1048575, got {count!r}$"):
        read_labels(reader(tmp_path, num_labels=count), CLASSIFIER)


def test_a_number_as_the_name_of_a_label_is_read_as_text(tmp_path: Path):
    assert read_labels(reader(tmp_path, id2label={"0": 5, "1": "a"}), CLASSIFIER).names == ["5", "a"]


def test_one_name_for_two_classes_is_refused_where_it_is_written(tmp_path: Path):
    with pytest.raises(ValueError, match=r"config.json: id2label gives 2 classes the name 'a'; zoo needs distinct"):
        read_labels(reader(tmp_path, id2label={"0": "a", "1": "b", "2": "a"}), CLASSIFIER)


def test_an_alias_that_is_null_says_nothing(tmp_path: Path):
    aliases = targets["gpt2"].aliases
    for config in ({"n_embd": 12, "hidden_size": None}, {"hidden_size": 12}, {"n_embd": None, "hidden_size": 12}):
        read = reader(tmp_path, **config)
        read.resolve_aliases(aliases)
        assert read("n_embd") == 12


def test_a_tokenizer_that_names_a_key_twice_is_refused(tmp_path: Path):
    twice = backend("gpt2").to_str().replace('"vocab":{', '"vocab":{"a token": 900, "a token": 901, ', 1)
    (tmp_path / "tokenizer.json").write_text(twice, "utf-8")
    with pytest.raises(ValueError, match=r"tokenizer.json: .*'a token'"):
        find_backend(CheckpointFolder(tmp_path), {}, targets["gpt2"])


@pytest.mark.parametrize(("kind", "file"), [("bert", "vocab.txt"), ("gpt2", "merges.txt"), ("gpt2", "vocab.json")])
def test_a_vocabulary_file_that_is_not_utf8_is_named(tmp_path: Path, kind: str, file: str):
    path = publish(tmp_path, kind) / file
    path.write_bytes(path.read_bytes()[:7] + "\u00e9".encode("latin-1"))
    with pytest.raises(ValueError, match=rf"no tokenizer can be made from .*: {file}: not .*(byte 8|position 7)"):
        find_backend(CheckpointFolder(tmp_path), {}, targets[kind])


def test_added_tokens_come_in_the_order_of_their_numbers(tmp_path: Path):
    listed = {str(number): {"content": f"token {number}"} for number in (100, 9, 10, 99)}
    found = added_tokens(CheckpointFolder(tmp_path), {"added_tokens_decoder": listed}, {})
    assert [token.content for token in found] == ["token 9", "token 10", "token 99", "token 100"]


def test_the_end_of_a_text_stands_in_for_padding_rather_than_unknown_words():
    gpt2 = targets["gpt2"]
    assert (
        role_tokens(backend("gpt2"), {"unk_token": "!", "eos_token": '"'}, gpt2, gpt2.classes[0], False)["pad"] == '"'
    )


def test_a_tokenizer_of_bytes_has_no_unknown_word_that_is_skipped_as_padding(tmp_path: Path):
    gpt2 = targets["gpt2"]
    classifier = next(one for one in gpt2.classes if "classification" in one.heads)
    found = read_tokenizer(CheckpointFolder(publish(tmp_path, "gpt2")), {}, gpt2, classifier)
    assert isinstance(found, Tokenizer) and found.role_tokens["unk"] == ENDING
    padding = {"pad_token_id": found.backend.token_to_id(ENDING)}
    assert padding_in_texts(found, padding, gpt2.for_class(classifier)) == ()


@pytest.mark.parametrize("snapshots", [False, True])
def test_only_a_snapshot_of_the_hubs_cache_may_link_to_its_blobs(tmp_path: Path, snapshots: bool):
    folder, blob = tmp_path / ("snapshots" if snapshots else "mine") / "abc", tmp_path / "blobs" / "config"
    for place in (folder / "sub", blob.parent):
        place.mkdir(parents=True)
    for file in (blob, folder / "sub" / "config.json"):
        file.write_text("{}")
    (folder / "config.json").symlink_to("../../blobs/config")
    found = CheckpointFolder(folder)
    if snapshots:
        assert found.read("config.json") == b"{}"
    else:
        with pytest.raises(ValueError, match="leads out of the folder"):
            found.read("config.json")
    with pytest.raises(ValueError, match="leads out of the folder"):
        found.read("sub/config.json")  # no file that transformers would read


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"num_layers": "2"}, r"config.json: num_layers: expected a whole number, got '2'$"),
        ({"d_model": 512.0}, r"config.json: d_model: expected a whole number, got 512.0$"),
        ({"layer_norm_epsilon": "1e-6"}, r"config.json: layer_norm_epsilon: expected a number, got '1e-6'$"),
        ({"decoder_layers": "6"}, r"config.json: decoder_layers is '6'; zoo imports .* only with null or 6$"),
    ],
)
def test_a_value_of_another_type_is_refused_by_the_name_of_its_key(tmp_path: Path, config: Any, said: str):
    read = reader(tmp_path, **{"model_type": "t5", **config})
    with pytest.raises(ValueError, match=said):
        read_flat(read, read_family(CheckpointFolder(tmp_path), read)[0])
