"""Models by name from Python, and what is refused then."""

from pathlib import Path
from typing import Any

import pytest
import torch

from drawing import Drawing
from zoo import create_model, list_models
from zoo.blocks.norm import norms


def test_models_are_listed_by_pattern():
    assert list_models("gpt2-m*") == ["gpt2-medium", "gpt2-micro"]
    with pytest.raises(ValueError, match="pattern: expected a text, got 5"):
        list_models(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "seed", "words"),
    [
        (5, 0, "name: expected a text, got 5"),
        ("bert-nano", "x", "seed: expected a whole number, got 'x'"),
        ("bert-nano", 1.5, "seed: expected a whole number, got 1.5"),
        ("bert-nano", -1, "seed must be at least 0, got -1"),
        ("bert-nano", 2**63, r"seed: expected a whole number below 2\*\*63, got 9223372036854775808"),
    ],
)
def test_a_wrong_name_or_seed_is_refused_by_its_own_name(name: Any, seed: Any, words: str):
    with pytest.raises(ValueError, match=words):
        create_model(name, seed=seed)


def test_what_a_variant_draws_itself_follows_the_seed_and_the_callers_numbers_go_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(norms.variants, "drawing", Drawing)  # type: ignore[arg-type]
    before = torch.get_rng_state()
    first, again, other = (create_model("gpt2-nano", norm="drawing", seed=seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    gains = [name for name in first if name.endswith("gain")]
    assert gains and all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in gains)


def test_a_model_on_the_meta_device_has_no_parameters_to_draw():
    with torch.device("meta"):
        model = create_model("gpt2-nano")
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}


def test_a_path_is_a_name_too(tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text("base: gpt2-nano\nd_model: 16\n")
    assert create_model(file).stream.d_model == create_model(str(file)).stream.d_model == 16


def test_the_largest_seed_makes_a_model():
    assert create_model("bert-nano", seed=2**63 - 1).settings.encoder is not None
