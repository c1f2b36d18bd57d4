"""Native target `gpt2`: pre-norm decoders that are transformers' GPT2… classes.

`openai-gpt` has the same layers, with norms in other places.

Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"; transformers' `models/gpt2`.
"""

from zoo.hub.targets.declare.classes import decoder_tagger, double_heads, last_token_classifier, tied_causal_lm
from zoo.hub.targets.declare.key import first_value, key
from zoo.hub.targets.declare.recipes import GPT2
from zoo.hub.targets.declare.registry import register
from zoo.hub.targets.declare.renaming import TRANSPOSED, affine, same
from zoo.hub.targets.declare.requirements import (
    CAUSAL,
    activation,
    exactly,
    plain_blocks,
    plain_embeddings,
    whole_cache,
)
from zoo.hub.targets.declare.target import Target

OURS = "decoder.stack.blocks.{i}"
THEIRS = "transformer.h.{i}"
QKV = [f"{OURS}.mixer.attention.{name}" for name in ("query", "key", "value")]

ALIASES = {
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}
SIZES = (
    key("n_embd", "decoder.d_model", default=768),
    key("n_layer", "decoder.n_layers", default=12),
    key("n_head", "decoder.n_heads", default=12),
)
TRAINING = (
    key("layer_norm_epsilon", "decoder.norm.eps", default=1e-5),
    key("resid_pdrop", "decoder.dropout", merge=first_value, default=0.1),
    key("embd_pdrop", "decoder.dropout", merge=first_value, default=0.1),
    key("attn_pdrop", "decoder.attention.dropout", merge=first_value, default=0.1),
)
LAYERS = (
    *affine(f"{OURS}.norms.mixer", f"{THEIRS}.ln_1"),
    *affine(QKV, f"{THEIRS}.attn.c_attn", weight=[TRANSPOSED]),
    *affine(f"{OURS}.mixer.attention.output", f"{THEIRS}.attn.c_proj", weight=[TRANSPOSED]),
    *affine(f"{OURS}.norms.feed_forward", f"{THEIRS}.ln_2"),
    *affine(f"{OURS}.feed_forward.up", f"{THEIRS}.mlp.c_fc", weight=[TRANSPOSED]),
    *affine(f"{OURS}.feed_forward.down", f"{THEIRS}.mlp.c_proj", weight=[TRANSPOSED]),
)

target = Target(
    name="gpt2",
    model_type="gpt2",
    family="transformers' GPT-2",
    models="pre-norm decoders with learned positions",
    example="gpt2",
    rank=2,
    sides=("decoder",),
    requirements=(
        *plain_blocks("decoder", "pre_norm", "learned", ends_with_norm=True),
        *plain_embeddings(),
        *exactly("embeddings", norm=None),
    ),
    keys=(
        key("vocab_size", "decoder.vocab_size", default=50257),
        key("n_positions", "decoder.max_length", default=1024),
        *SIZES,
        key("n_inner", "decoder.d_ff", default=None, null_means=lambda config: 4 * config("n_embd")),
        activation("activation_function", "decoder.feed_forward.activation", default="gelu_new"),
        *TRAINING,
    ),
    constants={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False},
    renames=(
        same("decoder.stack.embeddings.tokens.weight", "transformer.wte.weight"),
        same("decoder.stack.positions.0.table.weight", "transformer.wpe.weight"),
        *LAYERS,
        *affine("decoder.stack.norm", "transformer.ln_f"),
    ),
    classes=(
        tied_causal_lm("GPT2LMHeadModel", "transformer.wte.weight"),
        last_token_classifier("GPT2ForSequenceClassification"),
        decoder_tagger("GPT2ForTokenClassification", "classifier"),
        double_heads("GPT2DoubleHeadsModel", "transformer.wte.weight"),
    ),
    longest="decoder.max_length",
    prefix="transformer.",
    strays=("attn.bias", "attn.masked_bias"),
    demands=CAUSAL,
    cache_demands=whole_cache("n_positions"),
    recipe=GPT2,
    aliases=ALIASES,
)
register(target)
