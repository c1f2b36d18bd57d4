"""Decoders with a window, and transformers' Mistral."""

from typing import Any

import pytest
from rotary_models import draw_decoder

from zoo.hub.targets.choose import obstacles
from zoo.hub.targets.declare.registry import targets
from zoo.models.settings import load_settings

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.parametrize("seed", range(8))
def test_random_models_give_their_logits(build: Any, export: Any, seed: int):
    sets = draw_decoder(seed, even=seed % 2 == 0)
    sets["decoder.attention"]["window"] = 2 + 3 * (seed % 4)
    report = export(build("gpt-modern", sets, "byte_bpe"))
    assert report.target == "mistral" and report.check.differences["float64"] < 1e-11


def test_a_model_without_a_window_may_be_one_too(build: Any, export: Any):
    report = export(build("gpt-modern", {"decoder.attention.n_kv_heads": 1}), "mistral")
    assert (report.target, report.class_name) == ("mistral", "MistralForCausalLM")


IN_THE_WAY = [
    ({"decoder.attention.window": 1}, "decoder.attention.window is 1", "null or 2 (or more)"),
    ({"decoder.attention.bias": True}, "decoder.attention.bias is true", "false"),
    ({"decoder.feed_forward.bias": True}, "decoder.feed_forward.bias is true", "false"),
    ({"decoder.attention.window": [None, 5]}, "decoder.attention.window differ (null, 5)", "one value for all"),
]


@pytest.mark.parametrize(("sets", "wrong", "right"), IN_THE_WAY)
def test_the_choice_in_the_way_is_named(sets: dict[str, Any], wrong: str, right: str):
    pairs = [(tuple(path.split(".")), value) for path, value in sets.items()]
    found = obstacles(load_settings("gpt-modern", pairs))["mistral"]
    assert found == f"{wrong}; {targets['mistral'].family} has {right}"
