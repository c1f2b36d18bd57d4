"""Settings as a flat table."""

from zoo.hub.targets.declare.flat_settings import by_layer, flatten
from zoo.models.settings import load_settings


def test_a_choice_is_its_name_with_its_options_under_it():
    flat = flatten(load_settings("bert-nano"))
    assert flat["encoder.norm"] == ("layernorm",)
    assert flat["encoder.norm.eps"] == (1e-12,) and flat["encoder.norm.bias"] == (True,)
    assert flat["encoder.feed_forward.activation"] == ("gelu",)
    assert flat["heads.masked_lm.norm.eps"] == (1e-12,) and flat["heads.masked_lm.activation"] == ("gelu",)
    assert flat["embeddings.norm.eps"] == (1e-12,)


def test_a_text_is_itself_and_the_name_of_a_choice_has_its_options():
    sets = [(("embeddings", "vectors"), "words.txt"), (("decoder", "attention"), {"qk_norm": "rmsnorm"})]
    flat = flatten(load_settings("gpt-nano", sets))
    assert flat["embeddings.vectors"] == ("words.txt",)
    assert flat["decoder.attention.qk_norm"] == ("rmsnorm",) and flat["decoder.attention.qk_norm.eps"] == (1e-6,)


def test_defaults_and_what_is_inherited_are_written_out():
    flat = flatten(load_settings("gpt-nano", [(("heads",), ["classification"]), (("dropout",), 0.25)]))
    assert flat["decoder.attention.dropout"] == (0.25,) and flat["heads.classification.dropout"] == (0.25,)
    assert flat["decoder.attention.window"] == (None,) and flat["embeddings.norm"] == (None,)


def test_layers_that_differ_give_several_values_and_unused_ones_none():
    flat = flatten(load_settings("gpt-nano", [(("decoder", "attention", "window"), [None, 3, 5])]))
    assert flat["decoder.attention.window"] == (None, 3)  # two layers read two of the three


def test_what_a_model_lacks_is_missing():
    flat = flatten(load_settings("gpt-nano"))
    assert not [path for path in flat if path.startswith("encoder")]
    assert "heads.masked_lm" not in flat


def test_what_follows_from_other_settings_is_written_out():
    flat = flatten(load_settings("gpt-nano"))
    (d_model,), (n_heads,) = flat["decoder.d_model"], flat["decoder.n_heads"]
    assert flat["decoder.attention.n_kv_heads"] == (n_heads,)
    assert flat["decoder.attention.d_key"] == flat["decoder.attention.d_value"] == (d_model // n_heads,)


WINDOWS = [(("decoder", "attention", "window"), [None, 3, 3]), (("decoder", "n_layers"), 4)]


def test_layers_with_a_window_and_those_without_are_told_apart():
    flat = flatten(load_settings("gpt-nano", [*WINDOWS, (("decoder", "d_ff"), [7, 5, 5])]))
    assert flat["decoder.layers"] == (("global", "local", "local", "global"),)
    assert flat["decoder.d_ff in global layers"] == (7,) and flat["decoder.d_ff in local layers"] == (5,)
    assert flat["decoder.attention.window in local layers"] == (3,)


def test_settings_of_kinds_of_layers_become_lists_again():
    given = {"decoder.layers": ["global", "local", "local"], "decoder.n_heads": 2}
    given |= {"decoder.attention.window in local layers": 3, "decoder.d_ff in global layers": 7}
    given |= {"decoder.d_ff in local layers": 5}
    found = by_layer(given)
    assert found == {"decoder.n_heads": 2, "decoder.attention.window": [None, 3, 3], "decoder.d_ff": [7, 5, 5]}


def test_settings_of_a_kind_that_no_layer_has_are_passed_over():
    assert by_layer({"decoder.layers": ["global"], "decoder.attention.window in local layers": 3}) == {}
