"""Models by name from Python, and what is refused then."""

from typing import Any

import pytest

from zoo import create_model, list_models


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


def test_the_largest_seed_makes_a_model():
    assert create_model("bert-nano", seed=2**63 - 1).settings.encoder is not None
