"""Native target `llama`: pre-norm decoders with rotary positions and gated feed-forwards, transformers' Llama… classes.

`mistral` and `qwen3` share its tensors and most of its keys.

Source: Touvron et al. 2023, arXiv:2302.13971 and arXiv:2307.09288; transformers' `models/llama`.
"""

from dataclasses import replace

from zoo.hub.targets.declare.classes import decoder_tagger, last_token_classifier, tied_causal_lm
from zoo.hub.targets.declare.flat_settings import FlatSettings
from zoo.hub.targets.declare.key import Config, Key, first_value, key, value_of
from zoo.hub.targets.declare.registry import register
from zoo.hub.targets.declare.renaming import affine, same
from zoo.hub.targets.declare.requirements import (
    CAUSAL,
    activation,
    equal_to,
    exactly,
    plain_embeddings,
    rotary_blocks,
    whole_cache,
)
from zoo.hub.targets.declare.rotary_scaling import NEUTRAL_SCALING, max_length_keys, modernize_rope, scaling_keys
from zoo.hub.targets.declare.target import NativeClass, Requirement, Target

OURS = "decoder.stack.blocks.{i}"
THEIRS = "model.layers.{i}"
TOKENS = "model.embed_tokens.weight"

N_KV_HEADS = "decoder.attention.n_kv_heads"
ATTENTION_BIAS, GATED_BIAS = "decoder.attention.bias", "decoder.feed_forward.bias"

REQUIREMENTS = (
    *rotary_blocks("decoder", "rmsnorm", first_norm=True),
    Requirement("decoder.attention", ("grouped", "full")),
    equal_to("decoder.attention.d_value", "decoder.attention.d_key"),
    *plain_embeddings(),
    *exactly("embeddings", norm=None),
)
KEYS = (
    key("hidden_size", "decoder.d_model", default=4096),
    key("num_hidden_layers", "decoder.n_layers", default=32),
    key("num_attention_heads", "decoder.n_heads", default=32),
    activation("hidden_act", "decoder.feed_forward.activation", default="silu"),
    key("rms_norm_eps", "decoder.norm.eps", default=1e-6),
    *scaling_keys("decoder"),
    # transformers 5 reads the first key, version 4 the second, and neither reads the other's
    key("rope_parameters.rope_theta", "decoder.position.base", default=10000.0),
    key("rope_theta", "decoder.position.base", default=None, null_means=value_of("rope_parameters.rope_theta")),
    key("attention_dropout", "decoder.attention.dropout", "decoder.dropout", merge=first_value, default=0.0),
)
DEMANDS = {**NEUTRAL_SCALING, **CAUSAL}
RENAMES = (
    same("decoder.stack.embeddings.tokens.weight", TOKENS),
    same(f"{OURS}.norms.mixer.weight", f"{THEIRS}.input_layernorm.weight"),
    *affine(f"{OURS}.mixer.attention.query", f"{THEIRS}.self_attn.q_proj", biased=ATTENTION_BIAS),
    *affine(f"{OURS}.mixer.attention.key", f"{THEIRS}.self_attn.k_proj", biased=ATTENTION_BIAS),
    *affine(f"{OURS}.mixer.attention.value", f"{THEIRS}.self_attn.v_proj", biased=ATTENTION_BIAS),
    *affine(f"{OURS}.mixer.attention.output", f"{THEIRS}.self_attn.o_proj", biased=ATTENTION_BIAS),
    same(f"{OURS}.norms.feed_forward.weight", f"{THEIRS}.post_attention_layernorm.weight"),
    *affine(f"{OURS}.feed_forward.gate", f"{THEIRS}.mlp.gate_proj", biased=GATED_BIAS),
    *affine(f"{OURS}.feed_forward.up", f"{THEIRS}.mlp.up_proj", biased=GATED_BIAS),
    *affine(f"{OURS}.feed_forward.down", f"{THEIRS}.mlp.down_proj", biased=GATED_BIAS),
    same("decoder.stack.norm.weight", "model.norm.weight"),
)


def even_width(config: Config) -> int:
    """The width of a head if the file does not give it."""
    width: int = config("hidden_size") // config("num_attention_heads")
    return width


def sizes(vocab_size: int, d_ff: int, max_length: int, n_kv_heads: int | None, d_key: int | None) -> tuple[Key, ...]:
    """The keys of sizes whose defaults differ between families; None: the default follows from other keys."""
    return (
        key("vocab_size", "decoder.vocab_size", default=vocab_size),
        key("intermediate_size", "decoder.d_ff", default=d_ff),
        *max_length_keys("decoder", default=max_length),
        key("num_key_value_heads", N_KV_HEADS, default=n_kv_heads, null_means=value_of("num_attention_heads")),
        key("head_dim", "decoder.attention.d_key", default=d_key, null_means=even_width),
    )


def classes(family: str) -> tuple[NativeClass, ...]:
    """A language model, a classifier of the last token, and a token classifier."""
    tagger = decoder_tagger(f"{family}ForTokenClassification", "score")
    return (
        tied_causal_lm(f"{family}ForCausalLM", TOKENS, tied=False),
        last_token_classifier(f"{family}ForSequenceClassification"),
        replace(tagger, demands={**tagger.demands, "token_classification_bias": (True,)}),
    )


def divisors(flat: FlatSettings) -> tuple[int, ...]:
    """All divisors of d_model."""
    d_model = flat["decoder.d_model"][0]
    return tuple(n for n in range(1, d_model + 1) if d_model % n == 0)


target = Target(
    name="llama",
    model_type="llama",
    family="transformers' Llama",
    models="pre-norm decoders: rmsnorm, rotary, gated; biases or none",
    example="gpt-modern",
    rank=5,
    sides=("decoder",),
    requirements=(
        *REQUIREMENTS,
        *exactly("decoder.attention", window=None, qk_norm=False),
        Requirement("decoder.n_heads", divisors, "divisors of d_model"),  # LlamaConfig checks it
    ),
    keys=(
        *KEYS,
        *sizes(32000, 11008, 2048, None, None),
        key("attention_bias", ATTENTION_BIAS, default=False),
        key("mlp_bias", GATED_BIAS, default=False),
    ),
    modernize=modernize_rope,
    demands=DEMANDS,
    cache_demands=whole_cache("max_position_embeddings"),
    renames=RENAMES,
    classes=classes("Llama"),
    longest="decoder.max_length",
    prefix="model.",
    strays=("rotary_emb.inv_freq",),
)
register(target)
