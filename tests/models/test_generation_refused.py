"""What generation refuses: settings that cannot be, prompts without room, models that do not write."""

import math

import pytest
import torch

from zoo.models.create import create_model
from zoo.models.generation.generate import generate
from zoo.models.generation.settings import GenerateSettings


def test_settings_that_cannot_be_are_refused():
    for problem, changes in {
        "beams and sampling .* do not combine; set beams to 1 or temperature to 0": {"beams": 2, "top_p": 0.5},
        "top_k and top_p need a temperature above 0": {"temperature": 0.0, "top_k": 3},
        "top_k and top_p need a temperature": {"temperature": 0.0, "top_p": 0.5},
        "max_new_tokens must be at least 1, got 0": {"max_new_tokens": 0},
        "top_k must be at least 1, got 0": {"top_k": 0},
        "beams must be at least 1, got 0": {"beams": 0},
        "temperature must be at least 0, got -0.5": {"temperature": -0.5},
        "seed must be at least 0, got -1": {"seed": -1},
        "top_p must be above 0 and at most 1, got 0.0": {"top_p": 0.0},
        "top_p must be above 0 and at most 1, got 1.5": {"top_p": 1.5},
        "length_penalty must be from -5 to 5, got -5.1": {"length_penalty": -5.1},
        "length_penalty must be from -5 to 5, got 1000.0": {"length_penalty": 1000.0},
        "length_penalty must be from -5 to 5, got nan": {"length_penalty": math.nan},
    }.items():
        with pytest.raises(ValueError, match=problem):
            GenerateSettings(**changes)
    assert not GenerateSettings(beams=2, temperature=0.0).samples
    assert GenerateSettings(top_p=1.0, length_penalty=5.0).samples


def test_prompts_and_models_that_cannot_be_continued_are_refused():
    model, settings = create_model("gpt2-nano"), GenerateSettings()
    for prompts, wrong in (([[3] * 65], 65), ([[3] * 64, []], 0)):
        with pytest.raises(ValueError, match=f"must have 1 to 64 tokens, special tokens included; got {wrong}"):
            generate(model, prompts, settings, None)
    for mute in (create_model("bert-nano"), create_model("gpt2-nano", heads=["classification"])):
        with pytest.raises(ValueError, match="does not generate text: it has no decoder with a language head"):
            generate(mute, [[3]], settings, None)


@pytest.mark.parametrize("name", ["transformer-nano", "rnn-attention-nano", "rnn-seq2seq-nano"])
@pytest.mark.parametrize("rows", [1, 4])
def test_a_source_of_other_rows_than_the_prompts_is_refused(name: str, rows: int):
    with pytest.raises(ValueError, match=f"source: expected 2 rows, one per row of tokens, got {rows}"):
        generate(create_model(name), [[3], [4]], GenerateSettings(), None, torch.full((rows, 5), 7))
