"""How a stranger's model generates is carried over as far as zoo can, and the rest is named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from strangers import OPUS, TOKENS, Stranger, change
from tokenizers import Tokenizer as Backend
from tokenizers.models import WordLevel

from zoo.data.ids import NO_ROLES
from zoo.hub.checkpoint import load_checkpoint
from zoo.hub.exporting.config_files import generation_file
from zoo.hub.exporting.trained_model import TrainedModel
from zoo.hub.importing.generation import read_generation
from zoo.hub.sources.folder import CheckpointFolder
from zoo.hub.targets.declare.registry import targets
from zoo.registry import REQUIRED

LLAMA = {
    "vocab_size": 31,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 12,
}

READ: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("t5", {"num_beams": 4, "length_penalty": 2.0, "max_length": 200}, {"beams": 4, "length_penalty": 2.0}),
    ("t5", {"max_length": 200}, {"max_new_tokens": 199}),
    ("t5", {"num_beams": 256}, {"beams": 256}),
    ("t5", {"max_length": 200, "max_new_tokens": 30, "num_beams": 1}, {"max_new_tokens": 30}),
    ("llama", {"do_sample": True, "temperature": 0.6, "top_p": 0.9}, {"temperature": 0.6, "top_k": 50, "top_p": 0.9}),
    ("llama", {"do_sample": True, "top_k": 0, "top_p": 1.0}, {"temperature": 1.0}),
    ("llama", {"do_sample": True, "top_k": None, "top_p": None}, {"temperature": 1.0, "top_k": 50}),
    ("llama", {"do_sample": False, "temperature": 0.6, "top_k": 20}, {}),
]


class Generation(NamedTuple):
    settings: dict[str, Any]
    special: dict[str, int]
    left_out: tuple[str, ...]


def read(folder: Path, name: str, said: dict[str, Any] | None, config: dict[str, Any] | None = None) -> Generation:
    """What a folder says; None: it has no generation_config.json."""
    (folder / "generation_config.json").unlink(missing_ok=True)
    if said is not None:
        (folder / "generation_config.json").write_text(json.dumps(said))
    return Generation(*read_generation(CheckpointFolder(folder), config or {}, targets[name], True, 100, NO_ROLES))


@pytest.mark.parametrize(("name", "said", "wanted"), READ)
def test_what_zoo_knows_is_said_as_a_task_says_it(
    tmp_path: Path, name: str, said: dict[str, Any], wanted: dict[str, Any]
):
    found = read(tmp_path, name, said)
    assert wanted.items() <= found.settings.items() and not found.left_out
    assert found.settings.keys() - wanted.keys() <= {"max_new_tokens"}


def test_what_zoo_has_no_setting_for_is_named(tmp_path: Path):
    said = {"bad_words_ids": [[9]], "forced_eos_token_id": 0, "repetition_penalty": 1.0, "no_repeat_ngram_size": 3}
    assert set(read(tmp_path, "marian", said).left_out) == {
        "bad_words_ids", "forced_eos_token_id", "no_repeat_ngram_size"
    }  # fmt: skip
    marked = {"watermarking_config": {"bias": 2.0}, "token_healing": False, "max_time": None, "dola_layers": "high"}
    assert set(read(tmp_path, "llama", marked).left_out) == {"watermarking_config", "dola_layers"}
    assert read(tmp_path, "llama", {"repetition_penalty": 1.2, "typical_p": None}).left_out == ("repetition_penalty",)
    assert read(tmp_path, "llama", {"eos_token_id": [7, 8]}).left_out == ("eos_token_id (but 7)",)
    assert read(tmp_path, "marian", {"num_beams": 2, "do_sample": True}).left_out == ("do_sample (with beams)",)
    roles = replace(NO_ROLES, end=1, start=2)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [3], "decoder_start_token_id": 2}))
    *_, left_out = read_generation(CheckpointFolder(tmp_path), {}, targets["t5"], True, 100, roles)
    assert left_out == ("eos_token_id (3)",)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [3, 1], "bos_token_id": 4}))
    *_, left_out = read_generation(CheckpointFolder(tmp_path), {}, targets["t5"], True, 100, roles)
    assert left_out == ("eos_token_id (but 1)", "bos_token_id (4)")
    *_, left_out = read_generation(CheckpointFolder(tmp_path), {}, targets["llama"], True, 100, roles)
    assert left_out == ("eos_token_id (but 1)",)
    assert read(tmp_path, "gpt2", {}, {"prefix": "Say:"}).left_out == ("prefix",)
    assert read(tmp_path, "t5", {}, {"prefix": "translate"}).left_out == ()
    assert read(tmp_path, "gpt2", {"max_length": 50}).left_out == ("max_length (it counts the prompt)",)
    assert read(tmp_path, "gpt2", {"max_length": 50, "max_new_tokens": 9}).left_out == ()


NAMED: list[tuple[Any, Any, str]] = [  # a value with an effect, one without, and keys
    (1.5, 1.0, "repetition_penalty encoder_repetition_penalty typical_p guidance_scale"),
    (2, 1, "num_beam_groups num_return_sequences"),
    (3, 0, "no_repeat_ngram_size encoder_no_repeat_ngram_size min_length min_new_tokens"),
    (0.5, 0.0, "min_p top_h epsilon_cutoff eta_cutoff diversity_penalty penalty_alpha max_time"),
    (True, False, "early_stopping renormalize_logits remove_invalid_values token_healing"),
    ([9], [], "suppress_tokens begin_suppress_tokens bad_words_ids stop_strings sequence_bias force_words_ids"),
    (0, None, "forced_bos_token_id forced_eos_token_id exponential_decay_length_penalty"),
    ("high", None, "dola_layers watermarking_config constraints"),
]


@pytest.mark.parametrize(("value", "neutral", "keys"), NAMED)
def test_every_key_that_zoo_lacks_is_named_where_it_has_an_effect(value: Any, neutral: Any, keys: str, tmp_path: Path):
    for key in keys.split():
        assert [read(tmp_path, "t5", {key: one}).left_out for one in (value, neutral, None)] == [(key,), (), ()]


@pytest.mark.parametrize(
    ("said", "config", "told"),
    [
        ({"pad_token_id": 0}, {"eos_token_id": 2}, True),
        ({"eos_token_id": None, "pad_token_id": 0}, {}, True),
        ({"eos_token_id": [], "pad_token_id": 0}, {}, True),
        ({"eos_token_id": 2}, {}, False),
        ({}, {"eos_token_id": 2}, True),
        (None, {"eos_token_id": None}, True),
        (None, {"eos_token_id": 2}, False),
        (None, {}, True),  # the default of its class ends nothing
    ],
)
def test_a_model_whose_texts_end_nowhere_ends_them_here_and_that_is_told(
    said: dict[str, Any] | None, config: dict[str, Any], told: bool, tmp_path: Path
):
    """Transformers reads `generation_config.json`, or config.json where there is none."""
    if said is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(said))
    folder, roles = CheckpointFolder(tmp_path), replace(NO_ROLES, end=2)
    *_, left_out = read_generation(folder, config, targets["llama"], True, 100, roles)
    assert left_out == (("eos_token_id (none, but 2)",) if told else ())
    *_, left_out = read_generation(folder, config, targets["llama"], True, 100, replace(NO_ROLES, end=None))
    assert not left_out


@pytest.mark.parametrize("said", [{}, {"eos_token_id": 2}])
def test_transformers_ends_texts_with_what_the_config_says_alone(said: dict[str, Any], tmp_path: Path):
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA)).save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    change(tmp_path, **{"eos_token_id": REQUIRED, **said})
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path)
    assert theirs.config.eos_token_id == 2 and theirs.generation_config.eos_token_id == said.get("eos_token_id")


def test_of_a_class_that_writes_nothing_only_the_special_tokens_are_read(tmp_path: Path):
    said = {"no_repeat_ngram_size": 3, "max_new_tokens": 9, "pad_token_id": 5}
    (tmp_path / "generation_config.json").write_text(json.dumps(said))
    found = read_generation(CheckpointFolder(tmp_path), {}, targets["bert"], False, 100, NO_ROLES)
    assert found == ({}, {"pad": 5}, ())


def test_older_folders_say_it_in_their_config(tmp_path: Path):
    config = {"num_beams": 6, "max_length": 512}
    settings, *_ = read_generation(CheckpointFolder(tmp_path), config, targets["marian"], True, 100, NO_ROLES)
    assert settings == {"beams": 6, "max_new_tokens": 511}


def test_special_tokens_are_known_by_their_ids(tmp_path: Path):
    config = {"pad_token_id": 58, "eos_token_id": [0, 3], "decoder_start_token_id": 58, "bos_token_id": 400}
    assert read(tmp_path, "marian", None, config).special == {"pad": 58, "end": 0, "start": 58}
    assert read(tmp_path, "gpt2", None, {"eos_token_id": 7}).special == {"pad": 7, "end": 7, "start": 7}
    assert read(tmp_path, "t5", None).special == {"pad": 0, "start": 0}
    assert read(tmp_path, "gpt2", None, {"eos_token_id": 100, "pad_token_id": -1}).special == {"pad": 0, "start": 0}
    both = {"eos_token_id": 7, "pad_token_id": 5}
    assert read(tmp_path, "gpt2", None, both).special == {"pad": 5, "end": 7, "start": 7}
    assert read(tmp_path, "gpt2", {"eos_token_id": 8}, both).special == {"pad": 5, "end": 8, "start": 8}
    assert read(tmp_path, "t5", None, both).special == {"pad": 5, "end": 7, "start": 5}


def test_a_file_that_names_no_end_leaves_a_model_without_a_tokenizer_none(tmp_path: Path):
    config = {"pad_token_id": 5, "eos_token_id": 7}
    assert read(tmp_path, "t5", {"pad_token_id": 5}, config).special == {"pad": 5, "start": 5}
    assert read(tmp_path, "t5", {"eos_token_id": 7}, config).special == {"pad": 5, "end": 7, "start": 5}


def test_an_empty_file_hides_what_config_says_as_in_transformers(tmp_path: Path):
    config = {**TOKENS, "num_beams": 4}
    Stranger("MarianMTModel", {**TOKENS, **OPUS}, {}).save(tmp_path)
    found = read(tmp_path, "marian", {}, config)
    change(tmp_path, **config)
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path).generation_config
    assert (theirs.num_beams, theirs.eos_token_id) == (None, None)
    assert found.settings == {} and "end" not in found.special


@pytest.mark.parametrize(
    ("said", "start"), [({"bos_token_id": 4}, 4), ({"bos_token_id": 4, "decoder_start_token_id": 6}, 6)]
)
def test_texts_start_from_what_generation_config_names_as_in_transformers(
    said: dict[str, Any], start: int, tmp_path: Path
):
    sizes = {**TOKENS, **OPUS, "decoder_start_token_id": 9, "forced_eos_token_id": None}
    Stranger("MarianMTModel", sizes, {}).save(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps(said))
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path)
    assert theirs.generate(torch.tensor([[3, 4, 1]]), max_new_tokens=2)[0, 0] == start
    assert load_checkpoint(tmp_path).special.start == start
    Backend(WordLevel({f"w{i}": i for i in range(sizes["vocab_size"])}, "w5")).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"pad_token": "w0", "eos_token": "w1"}))
    assert load_checkpoint(tmp_path).tokenizer.roles.start == start


IMPOSSIBLE: list[tuple[str, dict[str, Any], dict[str, Any], set[str]]] = [
    ("t5", {"num_beams": "four", "length_penalty": 2.0}, {}, {"num_beams ('four')", "length_penalty (2.0)"}),
    ("t5", {"num_beams": 10**9, "max_new_tokens": 7}, {"max_new_tokens": 7}, {"num_beams (1000000000)"}),
    ("t5", {"num_beams": 0}, {}, {"num_beams (0)"}),
    ("t5", {"num_beams": 257}, {}, {"num_beams (257)"}),
    ("t5", {"num_beams": 257, "do_sample": True}, {}, {"num_beams (257)", "do_sample (with beams)"}),
    ("t5", {"max_length": [], "num_beams": 2}, {"beams": 2}, {"max_length ([])"}),
    ("t5", {"max_length": 1}, {}, {"max_length (1)"}),
    ("llama", {"do_sample": True, "temperature": 0.0}, {}, {"temperature (0.0)"}),
    ("llama", {"do_sample": True, "temperature": -1.0, "top_k": 9}, {}, {"temperature (-1.0)", "top_k (9)"}),
    ("llama", {"do_sample": True, "top_p": 0.0, "top_k": 9}, {"temperature": 1.0, "top_k": 9}, {"top_p (0.0)"}),
]


@pytest.mark.parametrize(("name", "said", "wanted", "named"), IMPOSSIBLE)
def test_values_that_cannot_be_here_are_named_and_left_out(
    tmp_path: Path, name: str, said: dict[str, Any], wanted: dict[str, Any], named: set[str]
):
    found = read(tmp_path, name, said)
    assert found.settings == wanted and set(found.left_out) == named


def test_what_was_read_is_written_again(build: Any, tmp_path: Path):
    said = {"num_beams": 4, "length_penalty": 2.0, "max_new_tokens": 20}
    given: TrainedModel = build("t5-nano", generate=read(tmp_path, "t5", said).settings)
    assert said.items() <= generation_file(given, targets["t5"]).items()
