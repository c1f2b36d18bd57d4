"""Llama, Mistral, Qwen3 and ModernBERT as transformers made them, at random, mean the same after importing."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from strangers import change
from untold import untold_run

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.checkpoint import load_checkpoint
from zoo.hub.exporting.reloading import KeepFloat64
from zoo.hub.exporting.weights import native_tensors
from zoo.hub.importing.importing import import_folder
from zoo.hub.targets.declare.flat_settings import flatten
from zoo.hub.targets.declare.registry import targets
from zoo.hub.targets.declare.target import Target
from zoo.inference.loaded import Loaded
from zoo.registry import REQUIRED

TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "vocab_size": 37, "max_position_embeddings": 19}
SIZES = TOKENS | {"num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 24, "intermediate_size": 7}
BASE = {"rope_parameters": {"rope_type": "default", "rope_theta": 300.0}}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.5}
SHORT = {"original_max_position_embeddings": 7}
UNEVEN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 300.0, "beta_fast": 3.0}
UNEVEN |= {"original_max_position_embeddings": 200}  # where it matters whether the range is cut to whole numbers
BANDS = {"low_freq_factor": 0.5, "high_freq_factor": 2.0, **SHORT}
GROUPED = {"num_key_value_heads": 2, "head_dim": 10}
BIASED = {"attention_bias": True, "mlp_bias": True}
SOME_SLIDE = {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}
KINDS = ["full_attention", "full_attention", "sliding_attention"]
BASES = {"full_attention": {"rope_theta": 300.0}, "sliding_attention": {"rope_theta": 30.0}}
HEAD = {"norm_bias": True, "classifier_bias": True, "classifier_activation": "silu"}
TOKENS_OF_ENCODERS = {"cls_token_id": 1, "sep_token_id": 2}
MODELS: list[tuple[str, dict[str, Any]]] = [
    ("LlamaForCausalLM", {}),
    ("LlamaForCausalLM", GROUPED | BIASED | BASE | {"tie_word_embeddings": True, "rms_norm_eps": 0.01}),
    ("LlamaForSequenceClassification", GROUPED | {"num_labels": 3, "hidden_act": "gelu_pytorch_tanh"}),
    ("LlamaForCausalLM", {"rope_parameters": {"rope_type": "linear", "rope_theta": 300.0, "factor": 3.0}}),
    ("LlamaForCausalLM", {"rope_parameters": {"rope_type": "llama3", "factor": 8.0, **BANDS}}),
    ("MistralForCausalLM", GROUPED | {"rope_parameters": DYNAMIC, "max_position_embeddings": 7}),
    (
        "Qwen3ForCausalLM",
        GROUPED | {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 3.0, **SHORT}},
    ),
    ("Qwen3ForCausalLM", GROUPED | {"rope_parameters": {**UNEVEN, "truncate": None}}),
    ("MistralForCausalLM", {"num_key_value_heads": 1, "sliding_window": 3}),
    ("MistralForCausalLM", GROUPED | BASE | {"hidden_size": 21, "sliding_window": None}),
    ("MistralForSequenceClassification", GROUPED | {"num_labels": 2}),
    ("Qwen3ForCausalLM", GROUPED | {"attention_bias": True, "sliding_window": 3}),
    ("Qwen3ForCausalLM", GROUPED | BASE | SOME_SLIDE),
    ("Qwen3ForSequenceClassification", GROUPED | {"num_labels": 5, "layer_types": KINDS} | SOME_SLIDE),
    ("ModernBertForMaskedLM", TOKENS_OF_ENCODERS | {"local_attention": 6, "classifier_pooling": "mean"}),
    ("ModernBertForMaskedLM", TOKENS_OF_ENCODERS | HEAD | {"local_attention": 5, "rope_parameters": BASES}),
    ("ModernBertForSequenceClassification", TOKENS_OF_ENCODERS | {"layer_types": KINDS, "local_attention": 4}),
    ("ModernBertForSequenceClassification", TOKENS_OF_ENCODERS | HEAD | BIASED | {"classifier_pooling": "mean"}),
]


def saved(name: str, config: dict[str, Any], folder: Path) -> Any:
    """A model of transformers in a folder, every parameter moved away from where it starts."""
    torch.manual_seed(0)
    cls = getattr(transformers, name)
    model = cls(cls.config_class(**{**SIZES, **config})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return model


@torch.no_grad()
def agree(theirs: Any, folder: Path, run: Path) -> Loaded:
    """Import a folder and compare the logits in float64."""
    import_folder(folder, run)
    loaded = load_checkpoint(run)
    tokens = torch.randint(3, 37, (3, 11), generator=torch.Generator().manual_seed(1))
    with KeepFloat64():
        wanted = theirs.double()(tokens).logits
    torch.testing.assert_close(loaded.model.double().eval()(tokens).logits, wanted, atol=1e-10, rtol=1e-10)
    return loaded


def target_of(folder: Path) -> Target:
    return targets[json.loads((folder / "config.json").read_text())["model_type"]]


@pytest.mark.parametrize(("name", "config"), MODELS)
def test_logits_stay_and_the_way_back_gives_the_same_tensors(
    name: str, config: dict[str, Any], tmp_path: Path, trained: dict[str, Tokenizer]
):
    theirs = saved(name, config, tmp_path / "theirs")
    loaded = agree(theirs, tmp_path / "theirs", tmp_path / "run")
    loaded.model.float()
    given = untold_run(loaded, trained["bpe"])
    target = target_of(tmp_path / "theirs")
    chosen = target.native_class(given.settings)
    assert chosen is not None and chosen.name == name and target.obstacle(given.settings) is None
    before, after = load_file(tmp_path / "theirs" / "model.safetensors"), native_tensors(given, target, chosen)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 7}
OLDER = [
    ("LlamaForCausalLM", BASE, {"rope_theta": 300.0, "rope_scaling": None}, ["rope_parameters"]),
    (
        "LlamaForCausalLM",
        {"rope_parameters": {"rope_theta": 300.0, **LLAMA3}},
        {"rope_theta": 300.0, "rope_scaling": LLAMA3},
        ["rope_parameters"],
    ),
    (
        "Qwen3ForCausalLM",
        GROUPED | {"rope_parameters": {**YARN, "rope_type": "yarn", "rope_theta": 300.0}},
        {"rope_theta": 300.0, "rope_scaling": YARN},
        ["rope_parameters"],
    ),
    (
        "ModernBertForMaskedLM",
        TOKENS_OF_ENCODERS | {"rope_parameters": BASES, "layer_types": [KINDS[0], KINDS[2], KINDS[0]]},
        {"global_rope_theta": 300.0, "local_rope_theta": 30.0, "global_attn_every_n_layers": 2},
        ["rope_parameters", "layer_types"],
    ),
    ("Qwen3ForCausalLM", GROUPED | SOME_SLIDE, {}, ["layer_types"]),
    (
        "LlamaForCausalLM",
        {"rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 300.0}},
        {"rope_parameters": {"type": "linear", "factor": 3.0, "rope_theta": 300.0}, "rope_scaling": {}},
        [],
    ),
    (
        "LlamaForCausalLM",
        {"rope_parameters": {"rope_theta": 300.0, **LLAMA3, "original_max_position_embeddings": 5}},
        {"rope_theta": 300.0, "rope_scaling": {**LLAMA3, **SHORT}, "original_max_position_embeddings": 5},
        ["rope_parameters"],
    ),
    ("ModernBertForMaskedLM", TOKENS_OF_ENCODERS | {"local_attention": 6}, {"sliding_window": 3}, ["local_attention"]),
]


@pytest.mark.parametrize(("name", "config", "older", "newer"), OLDER)
def test_the_keys_of_older_versions_mean_the_same(
    name: str, config: dict[str, Any], older: dict[str, Any], newer: list[str], tmp_path: Path
):
    theirs = saved(name, config, tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    written = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in written.items() if key not in newer} | older))
    agree(theirs, tmp_path / "theirs", tmp_path / "run")


def test_a_window_that_is_used_and_null_is_none(tmp_path: Path):
    theirs = saved("Qwen3ForCausalLM", GROUPED | SOME_SLIDE | {"sliding_window": None}, tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    tree = json.loads(path.read_text())
    assert tree.pop("layer_types") == ["full_attention"] * 3 and tree["use_sliding_window"]
    path.write_text(json.dumps(tree))
    loaded = agree(theirs, tmp_path / "theirs", tmp_path / "run")
    assert flatten(loaded.model.settings)["decoder.attention.window"] == (None,)


def test_two_spellings_of_the_base_that_differ_are_refused(tmp_path: Path):
    saved("LlamaForCausalLM", BASE, tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rope_theta": 70.0}))
    with pytest.raises(ValueError, match="rope_theta is 70, but another key gives 300; .*decoder.position.base"):
        import_folder(tmp_path / "theirs", tmp_path / "run")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"rope_type": "longrope", "factor": 2.0},
            "rope_parameters.rope_type is 'longrope'; zoo reads default or linear or",
        ),
        ({"rope_type": "yarn", "factor": 2.0, "mscale": 0.7}, "rope_parameters.mscale is 0.7; zoo imports"),
        ({"rope_type": "linear", "partial_rotary_factor": 0.5}, "rope_parameters.partial_rotary_factor is 0.5"),
        ({"rope_type": "linear", "factor": "2"}, "decoder.position.scaling.factor: expected a number, got '2'"),
    ],
)
@pytest.mark.parametrize("spelling", ["rope_parameters", "rope_scaling"])
def test_a_scaling_that_zoo_does_not_have_is_refused_by_name(
    spelling: str, changed: dict[str, Any], words: str, tmp_path: Path
):
    saved("LlamaForCausalLM", {}, tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {spelling: changed}))
    with pytest.raises(ValueError, match=words):
        import_folder(tmp_path / "theirs", tmp_path / "run")


SLOWER = {"rope_type": "linear", "factor": 2.0, "rope_theta": 300.0}
OLDER_SLOWER = {"type": "linear", "factor": 2.0, "rope_theta": 300.0}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rope_parameters": {kind: SLOWER for kind in BASES}}, "full_attention.rope_type is linear; zoo imports"),
        ({"rope_parameters": {**BASES, "sliding_attention": SLOWER}}, "sliding_attention.rope_type is linear; zoo"),
        ({"rope_parameters": {"full_attention": OLDER_SLOWER}}, "full_attention.rope_type is linear; zoo imports"),
        ({"rope_parameters": {"rope_theta": 300.0}}, "rope_parameters.rope_theta is 300; zoo imports .* with null"),
        (
            {"rope_scaling": SLOWER},
            "rope_scaling is .*'factor': 2.0.*; zoo imports transformers' ModernBERT only with null",
        ),
    ],
)
def test_modernbert_with_scaled_positions_is_refused(changed: dict[str, Any], words: str, tmp_path: Path):
    saved("ModernBertForMaskedLM", TOKENS_OF_ENCODERS, tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(ValueError, match=words):
        import_folder(tmp_path / "theirs", tmp_path / "run")


@pytest.mark.parametrize("kind", list(BASES))
def test_positions_of_each_kind_of_layer_are_refused_where_the_class_has_one_for_all(kind: str, tmp_path: Path):
    saved("Qwen3ForCausalLM", GROUPED | SOME_SLIDE, tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rope_parameters": {kind: BASES[kind]}}))
    with pytest.raises(ValueError, match=f"rope_parameters.{kind} is .*rope_theta.*; zoo imports .* only with null"):
        import_folder(tmp_path / "theirs", tmp_path / "run")


@pytest.mark.parametrize(
    "changed", [{"use_sliding_window": False}, {"use_sliding_window": REQUIRED}, {"sliding_window": None}]
)
def test_layers_with_a_window_that_other_keys_switch_off_are_refused(changed: dict[str, Any], tmp_path: Path):
    saved("Qwen3ForCausalLM", SOME_SLIDE, tmp_path / "theirs")
    with pytest.raises(
        ValueError, match="only with true and a sliding_window, since layer_types has sliding_attention"
    ):
        import_folder(change(tmp_path / "theirs", **changed), tmp_path / "run")


@pytest.mark.parametrize("name", ["Qwen3ForCausalLM", "ModernBertForMaskedLM"])
def test_a_list_of_kinds_for_fewer_layers_than_there_are_is_refused(name: str, tmp_path: Path):
    saved(name, TOKENS_OF_ENCODERS if "Bert" in name else SOME_SLIDE, tmp_path / "theirs")
    with pytest.raises(ValueError, match="layer_types is .*; zoo imports .* only with a kind for each of 3 layers"):
        import_folder(change(tmp_path / "theirs", layer_types=KINDS[1:]), tmp_path / "run")


@pytest.mark.parametrize("given", [[300.0], "default", 300.0])
def test_what_should_be_a_map_of_positions_and_is_none_is_refused(given: Any, tmp_path: Path):
    saved("LlamaForCausalLM", BASE, tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rope_parameters": given}))
    with pytest.raises(ValueError, match="config.json: rope_parameters must be a map, got "):
        import_folder(tmp_path / "theirs", tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "left_out", "changed", "words"),
    [
        ("MistralForCausalLM", "head_dim", {"num_attention_heads": 0}, "head_dim is missing, and does not follow"),
        ("LlamaForCausalLM", "head_dim", {"hidden_size": None}, "head_dim is missing, and does not follow"),
        (
            "Qwen3ForCausalLM",
            "layer_types",
            {"num_hidden_layers": None},
            "layer_types is missing, and does not follow",
        ),
    ],
)
def test_what_follows_from_values_that_cannot_be_is_refused(
    name: str, left_out: str, changed: dict[str, Any], words: str, tmp_path: Path
):
    saved(name, {}, tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    tree = {key: value for key, value in json.loads(path.read_text()).items() if key != left_out}
    path.write_text(json.dumps(tree | changed))
    with pytest.raises(ValueError, match=words):
        import_folder(tmp_path / "theirs", tmp_path / "run")


@pytest.mark.parametrize("name", ["Qwen3ForCausalLM", "ModernBertForMaskedLM"])
def test_a_number_of_layers_that_no_stack_has_makes_no_list_of_their_kinds(name: str, tmp_path: Path):
    saved(name, TOKENS_OF_ENCODERS if "Bert" in name else {}, tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    tree = {key: value for key, value in json.loads(path.read_text()).items() if key != "layer_types"}
    path.write_text(json.dumps(tree | {"num_hidden_layers": 20_000_000}))
    tracemalloc.start()
    with pytest.raises(ValueError, match="n_layers must be at most 10000, got 20000000"):
        import_folder(tmp_path / "theirs", tmp_path / "run")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**27
