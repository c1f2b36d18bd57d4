"""Keys that shorten transformers' key/value cache in families whose attention has no window."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from strangers import GPT2, OPUS, T5, TOKENS, Stranger, change

import zoo

LENGTH = 24
LLAMA = {
    "vocab_size": 31,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 7,
    "max_position_embeddings": LENGTH,
}
FAMILIES = {
    "GPT2LMHeadModel": {**GPT2, "n_positions": LENGTH},
    "LlamaForCausalLM": LLAMA,
    "MistralForCausalLM": {**LLAMA, "sliding_window": None},
    "MarianMTModel": {**TOKENS, **OPUS, "max_position_embeddings": LENGTH, "forced_eos_token_id": None},
    "PegasusForConditionalGeneration": {**TOKENS, **OPUS, "max_position_embeddings": LENGTH},
    "T5ForConditionalGeneration": {**TOKENS, **T5, "n_positions": LENGTH},
}
CASES = [
    (name, theirs)
    for name in FAMILIES
    for theirs in ("sliding_window", "attention_chunk_size")
    if (name, theirs) != ("MistralForCausalLM", "sliding_window")  # the window of its attention
]


def generated_logits(folder: Path, name: str) -> list[torch.Tensor]:
    """The logits of texts that transformers generates, with a key/value cache and without."""
    model, found = getattr(transformers, name).from_pretrained(folder), []
    for use_cache in (True, False):
        settings = {"max_new_tokens": 6, "eos_token_id": None, "return_dict_in_generate": True, "output_logits": True}
        said = model.generate(torch.arange(3, 13)[None], do_sample=False, use_cache=use_cache, **settings)
        found.append(torch.stack(said.logits))
    return found


@pytest.mark.parametrize(("name", "theirs"), CASES)
def test_a_cache_that_drops_positions_is_refused_and_one_that_keeps_them_is_not(name: str, theirs: str, tmp_path: Path):
    Stranger(name, FAMILIES[name], {}).save(tmp_path)
    cached, whole = generated_logits(change(tmp_path, **{theirs: LENGTH}), name)
    torch.testing.assert_close(cached, whole)
    zoo.load(tmp_path)
    cached, whole = generated_logits(change(tmp_path, **{theirs: 3}), name)
    assert (cached - whole).abs().max() > 1e-2
    with pytest.raises(ValueError, match=rf"{theirs} is 3; zoo imports transformers' \S+ only with null or {LENGTH}"):
        zoo.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "kinds", "refused"),
    [
        ("LlamaForCausalLM", ["full_attention", "full_attention"], False),
        ("LlamaForCausalLM", ["full_attention", "sliding_attention"], True),
        ("LlamaForCausalLM", "full_attention", True),
        ("MistralForCausalLM", ["sliding_attention", "sliding_attention"], False),
        ("MistralForCausalLM", ["full_attention", "sliding_attention"], True),
    ],
)
def test_layers_of_another_kind_than_the_family_has_are_refused(name: str, kinds: Any, refused: bool, tmp_path: Path):
    Stranger(name, {**FAMILIES[name], "sliding_window": 5 if name.startswith("Mistral") else None}, {}).save(tmp_path)
    change(tmp_path, layer_types=kinds)
    assert json.loads((tmp_path / "config.json").read_text())["layer_types"] == kinds
    if not refused:
        zoo.load(tmp_path)
        return
    with pytest.raises(ValueError, match=r"layer_types is .*; zoo imports transformers' \S+ only with null"):
        zoo.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("LlamaForCausalLM", {"layer_types": ["full_attention"] * 2, "sliding_window": 3}),  # the cache keeps all
        ("LlamaForSequenceClassification", {"sliding_window": 3, "pad_token_id": 0}),  # it has no cache
    ],
)
def test_a_window_that_shortens_no_cache_is_not_refused(name: str, changes: dict[str, Any], tmp_path: Path):
    Stranger(name, LLAMA, {}).save(tmp_path)
    change(tmp_path, **changes)
    if name == "LlamaForCausalLM":
        cached, whole = generated_logits(tmp_path, name)
        torch.testing.assert_close(cached, whole)
    zoo.load(tmp_path)
