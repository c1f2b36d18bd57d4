"""config.json and generation_config.json say everything, so that no default of transformers speaks for us."""

from typing import Any

import pytest

from zoo.hub.exporting.config_files import config_file, generation_file
from zoo.hub.targets.choose import choose_target


def files_of(given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    target = choose_target(given.settings)
    native = target.native_class(given.settings)
    assert native is not None
    return config_file(given, target, native), generation_file(given, target) if native.generates else {}


def test_a_classifier_knows_its_labels_and_its_padding(build: Any):
    sets = {"heads": {"classification": {"labels": 3, "dropout": 0.3}}}
    config, _ = files_of(build("gpt2-nano", sets, labels=["no", "perhaps", "yes"]))
    assert config["id2label"] == {"0": "no", "1": "perhaps", "2": "yes"}
    assert config["label2id"] == {"no": 0, "perhaps": 1, "yes": 2}
    assert config["pad_token_id"] == 0
    config, _ = files_of(build("bert-nano", sets))
    assert config["id2label"]["2"] == "LABEL_2" and config["classifier_dropout"] == 0.3


def test_marian_begins_with_our_start_token(build: Any):
    config, generation = files_of(build("transformer-nano", {"encoder.max_length": 41}))
    roles = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2}
    assert roles.items() <= config.items() and roles.items() <= generation.items()
    assert config["forced_eos_token_id"] is None and config["scale_embedding"] is True
    assert config["max_position_embeddings"] == 41


def test_bert_and_gpt_activations_have_their_names(build: Any):
    assert files_of(build("bert-nano"))[0]["hidden_act"] == "gelu"
    assert files_of(build("gpt2-nano"))[0]["activation_function"] == "gelu_new"
    assert files_of(build("gpt-nano"))[0]["afn"] == "gelu"


@pytest.mark.parametrize(
    ("name", "generate", "written"),
    [
        ("transformer-nano", {"beams": 2, "length_penalty": 0.6}, {"num_beams": 2, "length_penalty": 0.6}),
        ("transformer-nano", {"beams": 5}, {"early_stopping": False, "length_penalty": 1.0}),
        ("transformer-nano", {}, {"num_beams": 1, "max_new_tokens": 37}),
        ("transformer-nano", {"max_new_tokens": 9}, {"num_beams": 1, "do_sample": False, "max_new_tokens": 9}),
        ("gpt2-nano", {}, {"max_new_tokens": 37 // 2}),  # the prompt takes the other half
        ("gpt2-nano", {"max_new_tokens": 9}, {"do_sample": False, "max_new_tokens": 9}),
        ("gpt2-nano", {"top_k": 7}, {"do_sample": True, "temperature": 1.0, "top_k": 7, "top_p": 1.0}),
        ("gpt-nano", {"temperature": 0.7, "top_p": 0.9}, {"temperature": 0.7, "top_k": 0, "top_p": 0.9}),
    ],
)  # fmt: skip
def test_the_tasks_way_to_generate_is_written(build: Any, name: str, generate: dict[str, Any], written: dict[str, Any]):
    assert written.items() <= files_of(build(name, generate=generate))[1].items()


def test_a_generate_setting_that_is_unknown_is_refused(build: Any):
    with pytest.raises(ValueError, match=r"generate: unknown key 'beam' \(did you mean 'beams'\?\)"):
        files_of(build("gpt2-nano", generate={"beam": 5}))
