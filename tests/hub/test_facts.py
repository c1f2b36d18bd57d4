"""Settings as a flat table."""

from zoo.hub.facts import facts_of
from zoo.models.settings import load_settings


def test_a_choice_is_its_name_with_its_options_under_it():
    facts = facts_of(load_settings("bert-nano"))
    assert facts["encoder.norm"] == ("layernorm",)
    assert facts["encoder.norm.eps"] == (1e-12,) and facts["encoder.norm.bias"] == (True,)
    assert facts["encoder.feed_forward.activation"] == ("gelu",)
    assert facts["heads.masked_lm.norm.eps"] == (1e-12,) and facts["heads.masked_lm.activation"] == ("gelu",)
    assert facts["embeddings.norm.eps"] == (1e-12,)


def test_defaults_and_what_is_inherited_are_written_out():
    facts = facts_of(load_settings("gpt-nano", [(("heads",), ["classification"]), (("dropout",), 0.25)]))
    assert facts["decoder.attention.dropout"] == (0.25,) and facts["heads.classification.dropout"] == (0.25,)
    assert facts["decoder.attention.window"] == (None,) and facts["embeddings.norm"] == (None,)


def test_layers_that_differ_give_several_values_and_unused_ones_none():
    facts = facts_of(load_settings("gpt-nano", [(("decoder", "attention", "window"), [None, 3, 5])]))
    assert facts["decoder.attention.window"] == (None, 3)  # two layers read two of the three


def test_what_a_model_lacks_is_missing():
    facts = facts_of(load_settings("gpt-nano"))
    assert not [path for path in facts if path.startswith("encoder")]
    assert "heads.masked_lm" not in facts
