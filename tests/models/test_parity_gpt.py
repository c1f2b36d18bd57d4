"""Logits of GPT-1, GPT-2 and Llama: ours against transformers' classes with the same random weights."""

import pytest
import torch
from copied import State, close, load, randomized, split, take, transposed
from torch import nn
from transformers import (
    GPT2Config,
    GPT2ForSequenceClassification,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    OpenAIGPTConfig,
    OpenAIGPTLMHeadModel,
)

SIZES = {"vocab_size": 300, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
TOKENS = torch.randint(0, 300, (3, 9), generator=torch.Generator().manual_seed(0))
PADDED = torch.tensor([[1] * 9, [0] * 4 + [1] * 5, [0] * 8 + [1]])
GAPS = torch.tensor([[1] * 9, [1] * 3 + [0] * 2 + [1] * 4, [1] + [0] + [1] * 3 + [0] * 3 + [1]])
BLOCK = "decoder.stack.blocks"


def gpt_state(core: nn.Module, tokens: nn.Embedding, positions: nn.Embedding) -> State:
    state = take("decoder.stack.embeddings.tokens", tokens) | take("decoder.stack.positions.0.table", positions)
    for i, layer in enumerate(core.h):
        state |= split(f"{BLOCK}.{i}.mixer.attention", layer.attn.c_attn.weight.T, layer.attn.c_attn.bias)
        state |= transposed(f"{BLOCK}.{i}.mixer.attention.output", layer.attn.c_proj)
        state |= transposed(f"{BLOCK}.{i}.feed_forward.up", layer.mlp.c_fc)
        state |= transposed(f"{BLOCK}.{i}.feed_forward.down", layer.mlp.c_proj)
        state |= take(f"{BLOCK}.{i}.norms.mixer", layer.ln_1) | take(f"{BLOCK}.{i}.norms.feed_forward", layer.ln_2)
    return state


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gpt_is_openai_gpt(dtype: torch.dtype):
    theirs = randomized(OpenAIGPTLMHeadModel(OpenAIGPTConfig(**SIZES)).to(dtype))
    core = theirs.transformer
    ours = load("gpt-nano", gpt_state(core, core.tokens_embed, core.positions_embed))
    close(ours(TOKENS).logits, theirs(TOKENS).logits)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gpt2_is_gpt2(dtype: torch.dtype, attention: str):
    theirs = randomized(GPT2LMHeadModel(GPT2Config(**SIZES, attn_implementation=attention)).to(dtype))
    core = theirs.transformer
    ours = load("gpt2-nano", gpt_state(core, core.wte, core.wpe) | take("decoder.stack.norm", core.ln_f))
    close(ours(TOKENS).logits, theirs(TOKENS).logits)
    at = (PADDED.cumsum(1) - 1).clamp_min(0)
    expected = theirs(TOKENS, attention_mask=PADDED, position_ids=at).logits
    close(ours(TOKENS, documents=PADDED).logits[PADDED > 0], expected[PADDED > 0])
    close(ours(TOKENS, documents=GAPS).logits[GAPS > 0], theirs(TOKENS, attention_mask=GAPS).logits[GAPS > 0])


def test_a_gap_in_a_text_leaves_a_classifier_one_answer_for_it():
    theirs = randomized(GPT2ForSequenceClassification(GPT2Config(**SIZES, num_labels=3, pad_token_id=0)))
    core = theirs.transformer
    state = gpt_state(core, core.wte, core.wpe) | take("decoder.stack.norm", core.ln_f)
    state |= {"heads.classification.output.weight": theirs.score.weight}
    heads, tokens = [{"name": "classification", "labels": 3}], TOKENS.clamp_min(1)
    ours = load("gpt2-nano", state, heads=heads)
    close(ours(tokens, documents=GAPS).logits, theirs(tokens, attention_mask=GAPS).logits)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("tied", [True, False])
def test_gpt_modern_is_llama(dtype: torch.dtype, tied: bool):
    settings = LlamaConfig(
        vocab_size=300,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        max_position_embeddings=64,
        rms_norm_eps=1e-6,
        tie_word_embeddings=tied,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
    )
    theirs = randomized(LlamaForCausalLM(settings).to(dtype))
    state = take("decoder.stack.embeddings.tokens", theirs.model.embed_tokens)
    state |= take("decoder.stack.norm", theirs.model.norm)
    state |= {} if tied else take("heads.language.output", theirs.lm_head)
    for i, layer in enumerate(theirs.model.layers):
        attention, name = layer.self_attn, f"{BLOCK}.{i}.mixer.attention"
        state |= take(f"{name}.query", attention.q_proj) | take(f"{name}.key", attention.k_proj)
        state |= take(f"{name}.value", attention.v_proj) | take(f"{name}.output", attention.o_proj)
        state |= take(f"{BLOCK}.{i}.feed_forward.gate", layer.mlp.gate_proj)
        state |= take(f"{BLOCK}.{i}.feed_forward.up", layer.mlp.up_proj)
        state |= take(f"{BLOCK}.{i}.feed_forward.down", layer.mlp.down_proj)
        state |= take(f"{BLOCK}.{i}.norms.mixer", layer.input_layernorm)
        state |= take(f"{BLOCK}.{i}.norms.feed_forward", layer.post_attention_layernorm)
    changes = {"decoder.attention.n_kv_heads": 2, "decoder.position.base": 500.0, "heads.language.tied": tied}
    sizes = {"vocab_size": 300, "max_length": 64, "d_model": 32, "n_layers": 2, "n_heads": 4, "d_ff": 48}
    ours = load("gpt-modern", state, **sizes, **changes)
    expected = theirs(TOKENS).logits
    if dtype == torch.float32:
        close(ours(TOKENS).logits, expected)
    else:  # theirs computes norms and angles in float32 whatever the model's dtype
        torch.testing.assert_close(ours(TOKENS).logits, expected, rtol=1e-5, atol=1e-5)
