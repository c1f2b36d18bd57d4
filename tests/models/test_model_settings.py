"""A model's file: what stacks inherit, what `--set` reaches, and the words of every refusal."""

from typing import Any

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

from zoo import config, create_model, list_models
from zoo.blocks.activation import activations
from zoo.blocks.block import blocks
from zoo.blocks.norm import norms
from zoo.models.model import Model
from zoo.models.settings import ModelSettings, dump_settings, load_settings, parse_settings
from zoo.strict_yaml import parse_yaml, to_yaml

SMALL: dict[str, Any] = {"vocab_size": 11, "d_model": 8, "heads": ["language"], "decoder": {"n_layers": 2}}


def change(name: str, *written: str) -> ModelSettings:
    """The settings of a model under `--set` texts."""
    return load_settings(name, [config.parse_set(text) for text in written])


def stack(settings: ModelSettings, side: str = "decoder") -> Any:
    return settings.parts[side].settings


@pytest.mark.parametrize("name", list_models())
def test_a_shipped_model_is_read_back_from_what_is_written(name: str):
    settings = load_settings(name)
    assert parse_settings(yaml.safe_load(to_yaml(dump_settings(settings)))) == settings


def cycled(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return values | st.lists(values, min_size=1, max_size=3)


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "dropout": st.sampled_from([0.0, 0.25, 0]),
        "decoder.dropout": cycled(st.sampled_from([0.0, 0.5])),
        "decoder.norm": cycled(st.sampled_from(norms.names())),
        "decoder.norm.eps": st.sampled_from([1e-6, 1e-3]),
        "decoder.block": cycled(st.sampled_from(blocks.names())),
        "decoder.position": cycled(st.sampled_from(["none", "alibi", "rotary", "relative"])),
        "decoder.attention": st.sampled_from(["full", {"name": "grouped", "n_kv_heads": [2, 4]}]),
        "decoder.attention.window": cycled(st.none() | st.integers(1, 9)),
        "decoder.attention.qk_norm": st.booleans() | st.sampled_from([*norms.names(), {"name": "rmsnorm", "eps": 0.1}]),
        "decoder.attention.sinks": st.booleans() | st.integers(0, 2),
        "decoder.feed_forward": st.sampled_from(["mlp", "gated"]),
        "decoder.feed_forward.activation": cycled(st.sampled_from(activations.names())),
        "decoder.n_layers": st.integers(1, 3),
        "decoder.first_norm": st.just(True),
        "decoder.final_norm": st.none() | st.booleans(),
        "heads.language.tied": st.booleans(),
        "initialize": st.sampled_from(["xavier", {"name": "normal", "std": 1}]),
    },
)


@given(CHANGES)
def test_a_changed_model_is_read_back_from_what_is_written(changes: dict[str, Any]):
    settings = load_settings("gpt2-nano", [(tuple(key.split(".")), value) for key, value in changes.items()])
    assert parse_settings(parse_yaml(to_yaml(dump_settings(settings)), "test")) == settings


@given(CHANGES)
def test_a_changed_model_can_be_built(changes: dict[str, Any]):
    assert create_model("gpt2-nano", **changes).decoder.n_layers == changes.get("decoder.n_layers", 2)


@pytest.mark.parametrize("name", list_models())
def test_a_shipped_model_builds(name: str):
    with torch.device("meta"):
        assert Model(load_settings(name)).settings == load_settings(name)


def test_stacks_inherit_the_models_keys_and_may_override_them():
    settings = parse_settings({**SMALL, "dropout": 0.3, "decoder": {"n_layers": 2, "max_length": 7}})
    assert (stack(settings).d_model, stack(settings).dropout, stack(settings).max_length) == (8, 0.3, 7)


def test_set_of_an_inherited_key_replaces_what_the_file_sets_for_stacks_attention_and_heads():
    tree = {
        **SMALL,
        "heads": {"classification": {"dropout": 0.5}},
        "decoder": {"n_layers": 2, "dropout": 0.4, "attention": [{"name": "full", "dropout": 0.3}, "full"]},
    }
    settings = parse_settings(tree, [(("dropout",), 0.2)])
    assert stack(settings).dropout == 0.2
    assert "dropout" not in settings.heads[0].options
    assert [stack(settings).layer(i).attention.option("dropout") for i in (0, 1)] == [0.2, 0.2]


def test_set_of_an_inherited_key_reaches_the_2017_transformer_on_both_sides():
    settings = change("transformer-nano", "dropout=0", "max_length=9")
    for side in ("encoder", "decoder"):
        assert stack(settings, side).layer(0).attention.option("dropout") == 0
        assert stack(settings, side).max_length == 9


def test_no_dropout_means_none_inside_feed_forwards_either():
    tree = {**SMALL, "decoder": {"n_layers": 1, "feed_forward": {"name": "mlp", "dropout": 0.3}}}
    assert stack(parse_settings(tree)).feed_forward.option("dropout") == 0.3
    assert stack(parse_settings(tree, [(("dropout",), 0.0)])).feed_forward.option("dropout") == 0


def test_later_sets_go_over_earlier_ones():
    settings = change("gpt2-nano", "dropout=0", "decoder.dropout=0.25")
    assert stack(settings).layer(0).attention.option("dropout") == 0.25


@pytest.mark.parametrize("key", ["n_layers", "decoder.n_layers"])
def test_a_bare_key_belongs_to_the_one_stack(key: str):
    assert stack(change("gpt2-nano", f"{key}=3")).n_layers == 3


def test_an_option_is_set_on_a_choice_written_as_a_name():
    assert stack(change("gpt2-nano", "attention.d_key=6")).attention.option("d_key") == 6


def test_another_variant_leaves_the_old_ones_options():
    settings = change("bert-nano", "norm=rmsnorm")
    assert stack(settings, "encoder").norm.plain() == "rmsnorm"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("heads.language.tied=false", {"tied": False}),
        ("heads=[{name: language, bias: true}]", {"bias": True}),
        ("heads={language: {bias: true}}", {"bias": True}),
        ("heads={language: null}", {}),
    ],
)
def test_heads_are_set_by_name_or_as_a_whole(written: str, expected: dict[str, Any]):
    assert dict(change("gpt2-nano", written).heads[0].options) == expected


def test_an_option_of_a_heads_norm_is_set_by_its_path():
    masked = change("bert-nano", "heads.masked_lm.norm.eps=0.5").heads[0]
    assert masked.option("norm").plain() == {"name": "layernorm", "eps": 0.5}


def test_heads_given_anew_keep_the_options_that_the_file_gives_them():
    masked, classify = change("bert-nano", "heads=[masked_lm, {name: classification, labels: 4}]").heads
    assert masked.option("norm").option("eps") == 1e-12 and classify.option("labels") == 4


WRONG = [
    (
        "gpt2-nano",
        "d_modle=8",
        r"--set d_modle: unknown key 'd_modle' \(did you mean 'd_model'\?\); allowed: vocab_size",
    ),
    ("gpt2-nano", "window=8", r"--set window: unknown key 'window' \(did you mean 'attention.window'\?\)"),
    ("gpt2-nano", "n_head=8", r"--set n_head: unknown key 'n_head' \(did you mean 'n_heads'\?\)"),
    ("transformer-nano", "n_heads=2", r"--set n_heads: ambiguous; set encoder.n_heads or decoder.n_heads"),
    ("transformer-nano", "attention.window=2", r"ambiguous; set encoder.attention.window or decoder.attention.window"),
    ("gpt2-nano", "encoder.n_layers=2", r"--set encoder.n_layers: the model has no encoder"),
    ("gpt2-nano", "decoder.n_layer=2", r"gpt2-nano.decoder: unknown key 'n_layer' \(did you mean 'n_layers'\?\)"),
    (
        "gpt2-nano",
        "norm=rmsnrm",
        r"gpt2-nano.decoder.norm: unknown norm 'rmsnrm' \(did you mean 'rmsnorm'\?\); allowed:",
    ),
    (
        "gpt2-nano",
        "norm.epz=1",
        r"unknown option of norm 'layernorm': 'epz' \(did you mean 'eps'\?\); allowed: eps, bias",
    ),
    ("gpt2-nano", "norm.eps=small", r"gpt2-nano.decoder.norm.eps: expected a number, got 'small'"),
    ("gpt2-nano", "n_layers=2.5", r"gpt2-nano.decoder.n_layers: expected a whole number, got 2.5"),
    ("gpt2-nano", "n_layers=0", r"gpt2-nano.decoder: n_layers must be at least 1, got 0"),
    ("gpt2-nano", "n_heads=[4, 0]", r"gpt2-nano.decoder: n_heads must be at least 1, got \[4, 0\]"),
    (
        "gpt2-nano",
        "attention=grouped",
        r"gpt2-nano.decoder.attention: attention 'grouped' needs the option 'n_kv_heads'",
    ),
    ("gpt2-nano", "attention.qk_norm=rmsnrm", r"attention.qk_norm: unknown norm 'rmsnrm' \(did you mean 'rmsnorm'\?\)"),
    ("gpt2-nano", "attention.qk_norm=3", r"attention.qk_norm: expected true or false or the name of a norm, got 3"),
    ("gpt2-nano", "feed_forward.activation=gelo", r"unknown activation 'gelo' \(did you mean 'gelu'\?\)"),
    (
        "gpt2-nano",
        "decoder.kind=transformr",
        r"decoder.kind: unknown decoder 'transformr' \(did you mean 'transformer'\?\)",
    ),
    ("gpt2-nano", "decoder.kind=[1]", r"decoder.kind: unknown decoder '\[1\]'; allowed: recurrent, transformer"),
    ("gpt2-nano", "decoder=3", r"gpt2-nano.decoder: expected a map with 'kind', got 3"),
    ("gpt2-nano", "decoder=null", r"gpt2-nano: a model needs an encoder, a decoder or both"),
    ("gpt2-nano", "heads=[langage]", r"heads\[0\]: unknown head 'langage' \(did you mean 'language'\?\)"),
    ("gpt2-nano", "heads=language", r"heads: expected a list of heads, got 'language'"),
    (
        "gpt2-nano",
        "heads=[]",
        r"gpt2-nano.heads: a model needs at least one head; allowed: choice, classification, language, masked_lm",
    ),
    ("gpt2-nano", "heads=[language, language]", r"heads: a head is named twice: language, language"),
    ("gpt2-nano", "heads={language: 3}", r"heads.language: expected a map of options, got 3"),
    ("gpt2-nano", "heads.language=3", r"gpt2-nano.heads.language: expected a map of options, got 3"),
    (
        "gpt2-nano",
        "heads.masked_lm.bias=false",
        r"--set heads.masked_lm.bias: the model has no head 'masked_lm'; it has",
    ),
    ("gpt2-nano", "heads.language.tide=false", r"unknown option of head 'language': 'tide' \(did you mean 'tied'\?\)"),
    ("gpt2-nano", "initialize=xavir", r"gpt2-nano.initialize: unknown initialize 'xavir' \(did you mean 'xavier'\?\)"),
    ("gpt2-nano", "embeddings.segment=2", r"gpt2-nano.embeddings: unknown key 'segment' \(did you mean 'segments'\?\)"),
]


@pytest.mark.parametrize(("name", "written", "message"), WRONG, ids=[written for _, written, _ in WRONG])
def test_a_wrong_setting_is_refused_with_the_nearest_right_one(name: str, written: str, message: str):
    with pytest.raises(ValueError, match=message):
        change(name, written)


UNFIT = [
    ("gpt2-nano", "n_heads=5", r"decoder: d_model \(32\) must be a multiple of n_heads \(5\), .* fit: 1, 2, 4, 8$"),
    ("bert-nano", "n_heads=[4, 5]", r"encoder: d_model \(32\) must be a multiple of n_heads \(5\)"),
    (
        "gpt2-nano",
        "attention={name: grouped, n_kv_heads: 3}",
        r"decoder: n_heads \(4\) must be a multiple of n_kv_heads",
    ),
    ("gpt2-nano", "position=[rotary, learned]", r"decoder: position 'learned' acts on the input, so it cannot differ"),
    ("gpt-nano", "first_norm=false", r"decoder: first_norm: false works only with block pre_norm"),
    (
        "transformer-nano",
        "encoder.d_model=16",
        r"embeddings.shared: the encoder's token embeddings are \(300, 16\), the dec",
    ),
    ("gpt2-nano", "norm=[layernorm, rmsnorm]", None),
]


@pytest.mark.parametrize(("name", "written", "message"), UNFIT, ids=[written for _, written, _ in UNFIT])
def test_options_that_do_not_combine_are_refused_with_the_reason(name: str, written: str, message: str | None):
    path, value = config.parse_set(written)
    if message is None:
        create_model(name, **{".".join(path): value})
        return
    with pytest.raises(ValueError, match=message):
        create_model(name, **{".".join(path): value})


def test_a_caller_from_python_is_told_of_keys_and_not_of_flags():
    with pytest.raises(ValueError, match=r"^n_layer: unknown key 'n_layer' \(did you mean 'n_layers'\?\)"):
        create_model("gpt2-nano", n_layer=3)


def test_an_unknown_model_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"unknown model 'gtp2' \(did you mean 'gpt2'\?\); known: bert-base, "):
        load_settings("gtp2")


@pytest.mark.parametrize(
    ("name", "sets"),
    [
        ("gpt2-nano", ["decoder.mixer=convolution", "decoder.position=rotary"]),
        ("gpt2-nano", ["mixer=[recurrent, convolution]", "attention.window=3"]),
        ("bert-nano", ["n_heads=2", "mixer=recurrent"]),
    ],
    ids=str,
)
def test_what_acts_in_attention_is_refused_where_no_mixer_attends(name: str, sets: list[str]):
    with pytest.raises(ValueError, match=r"--set \S+: nothing reads it: it acts in attention, and the mixer of every"):
        change(name, *sets)


@pytest.mark.parametrize(
    ("name", "set_", "why"),
    [
        ("gpt2-nano", "pooler.mean=true", "a decoder's heads read its last position"),
        ("rnn-seq2seq-nano", "decoder.n_heads=4", "the decoder has no attention"),
    ],
)
def test_what_a_decoder_has_not_is_refused(name: str, set_: str, why: str):
    with pytest.raises(ValueError, match=rf"--set \S+: nothing reads it: {why}"):
        change(name, set_)


@pytest.mark.parametrize(
    ("name", "sets"),
    [
        ("gpt2-nano", ["mixer=[attention, convolution]", "position=rotary"]),
        ("gpt2-nano", ["mixer=convolution", "position=none"]),
        ("bert-nano", ["pooler.mean=true"]),
        ("rnn-attention-nano", ["decoder.n_heads=4"]),
        ("transformer-nano", ["decoder.mixer=recurrent", "decoder.attention.d_key=4", "decoder.n_heads=2"]),
    ],
    ids=str,
)
def test_what_some_layer_reads_may_be_set(name: str, sets: list[str]):
    change(name, *sets)
