"""Parameter counts on the meta device: the published ones, transformers' classes', and the 2017 paper's Table 3."""

from typing import Any

import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForPreTraining,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    ModernBertConfig,
    ModernBertForMaskedLM,
)

from zoo.models.model import Model
from zoo.models.settings import load_settings

PUBLISHED = {
    "gpt": 116_534_784,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "bert-base": 110_106_428,
    "bert-large": 336_226_108,
}
TURC = {"tiny": (2, 128), "mini": (4, 256), "small": (4, 512), "medium": (8, 512)}  # layers, width


VOCABULARY = {"vocab_size": 30522, "pad_token_id": 0}


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def ours(name: str, **changes: Any) -> int:
    with torch.device("meta"):
        return count(Model(load_settings(name, [(tuple(key.split(".")), value) for key, value in changes.items()])))


def theirs(cls: type[nn.Module], settings: Any) -> int:
    with torch.device("meta"):
        model = cls(settings)
        model.tie_weights()
        return count(model)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_model_has_its_published_size(name: str):
    assert ours(name) == PUBLISHED[name]


@pytest.mark.parametrize("name", TURC)
def test_a_small_bert_is_as_large_as_transformers(name: str):
    layers, width = TURC[name]
    sizes = {"num_hidden_layers": layers, "num_attention_heads": width // 64, "intermediate_size": 4 * width}
    assert ours(f"bert-{name}") == theirs(BertForPreTraining, BertConfig(hidden_size=width, **sizes))


def test_gpt2_is_as_large_as_transformers():
    assert ours("gpt2") == theirs(GPT2LMHeadModel, GPT2Config())


def test_gpt_modern_is_as_large_as_llama():
    settings = LlamaConfig(
        vocab_size=32000,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_key_value_heads=4,
        intermediate_size=2048,
        tie_word_embeddings=True,
    )
    assert ours("gpt-modern") == theirs(LlamaForCausalLM, settings)


def test_bert_modern_is_as_large_as_modernbert():
    settings = ModernBertConfig(
        hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=1152, **VOCABULARY
    )
    assert ours("bert-modern") == theirs(ModernBertForMaskedLM, settings)


@pytest.mark.parametrize(("name", "width"), [("base", 512), ("big", 1024)])
def test_transformer_is_as_large_as_marian_without_its_tables_of_sinusoids(name: str, width: int):
    sides: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        sides |= {f"{side}_layers": 6, f"{side}_attention_heads": width // 64, f"{side}_ffn_dim": 4 * width}
    vocabulary = {"vocab_size": 37000, "decoder_vocab_size": 37000, "pad_token_id": 0}
    settings = MarianConfig(d_model=width, max_position_embeddings=8, **vocabulary, **sides)
    assert ours(f"transformer-{name}") == theirs(MarianMTModel, settings) - 2 * 8 * width


def both(**changes: Any) -> dict[str, Any]:
    """Changes of the encoder and of the decoder."""
    return {f"{side}.{key}": value for side in ("encoder", "decoder") for key, value in changes.items()}


def heads(n_heads: int, d_key: int) -> dict[str, Any]:
    return both(n_heads=n_heads, **{"attention.d_key": d_key, "attention.d_value": d_key})


TABLE_3 = [  # row, millions of parameters, what differs from the base model
    ("base", 65, {}),
    ("A", 65, heads(1, 512)),
    ("A", 65, heads(4, 128)),
    ("A", 65, heads(16, 32)),
    ("A", 65, heads(32, 16)),
    ("B", 58, both(**{"attention.d_key": 16})),
    ("B", 60, both(**{"attention.d_key": 32})),
    ("C", 36, both(n_layers=2)),
    ("C", 50, both(n_layers=4)),
    ("C", 80, both(n_layers=8)),
    ("C", 28, {"d_model": 256}),
    ("C", 168, {"d_model": 1024}),
    ("C", 53, both(d_ff=1024)),
    ("C", 90, both(d_ff=4096)),
    ("E", 65, both(position="learned")),
]


@pytest.mark.parametrize(("row", "millions", "changes"), TABLE_3)
def test_a_row_of_table_3_has_its_size_within_3_percent(row: str, millions: int, changes: dict[str, Any]):
    assert ours("transformer-base", vocab_size=41000, **changes) == pytest.approx(millions * 1e6, rel=0.03)


def test_the_big_model_of_table_3_has_its_size_within_3_percent():
    assert ours("transformer-big", vocab_size=41000) == pytest.approx(213e6, rel=0.03)
