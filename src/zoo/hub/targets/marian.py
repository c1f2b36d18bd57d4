"""Native target `marian`: the encoder-decoders of 2017 as transformers' MarianMTModel.

Marian's sinusoids are zoo's with all sines before all cosines. Permuting the whole residual stream in this way gives an
equivalent model: weights that read the stream have their input axis permuted, weights that write into it their output
axis.

Source: Vaswani et al. 2017, arXiv:1706.03762; transformers' `models/marian`.
"""

from torch import Tensor

from zoo.blocks.position import sinusoids
from zoo.hub.targets.declare.classes import translator
from zoo.hub.targets.declare.flat_settings import FlatSettings
from zoo.hub.targets.declare.key import first_value, key, value_of
from zoo.hub.targets.declare.registry import register
from zoo.hub.targets.declare.renaming import ROW, Rename, affine, same, split_halves
from zoo.hub.targets.declare.requirements import (
    NO_IS_CAUSAL,
    UNSCALED,
    activation,
    both_sides,
    exactly,
    plain_blocks,
    whole_cache,
)
from zoo.hub.targets.declare.target import ROLES, Copy, Requirement, Target

TOKENS = "{}.stack.embeddings.tokens.weight"
ROWS, COLUMNS = split_halves(0), split_halves(1)
LOGITS_BIAS = same("heads.language.bias", "final_logits_bias", ROW, when=("heads.language.bias", True))


def reads_stream(ours: str, theirs: str) -> tuple[Rename, Rename]:
    """A linear layer that reads the residual stream or the memory, which is the encoder's stream."""
    return affine(ours, theirs, weight=[COLUMNS])


def writes_stream(ours: str, theirs: str) -> tuple[Rename, Rename]:
    """A linear layer that writes into the residual stream, or a norm of the stream."""
    return affine(ours, theirs, weight=[ROWS], bias=[ROWS])


def attention(ours: str, theirs: str) -> tuple[Rename, ...]:
    """The four linear layers of attention."""
    return (
        *reads_stream(f"{ours}.query", f"{theirs}.q_proj"),
        *reads_stream(f"{ours}.key", f"{theirs}.k_proj"),
        *reads_stream(f"{ours}.value", f"{theirs}.v_proj"),
        *writes_stream(f"{ours}.output", f"{theirs}.out_proj"),
    )


def layers(side: str) -> tuple[Rename, ...]:
    """The tensors that the layers of both sides have."""
    ours, theirs = f"{side}.stack.blocks.{{i}}", f"model.{side}.layers.{{i}}"
    return (
        *attention(f"{ours}.mixer.attention", f"{theirs}.self_attn"),
        *writes_stream(f"{ours}.norms.mixer", f"{theirs}.self_attn_layer_norm"),
        *reads_stream(f"{ours}.feed_forward.up", f"{theirs}.fc1"),
        *writes_stream(f"{ours}.feed_forward.down", f"{theirs}.fc2"),
        *writes_stream(f"{ours}.norms.feed_forward", f"{theirs}.final_layer_norm"),
    )


LAYERS = (
    *layers("encoder"),
    *layers("decoder"),
    *attention("decoder.stack.blocks.{i}.cross", "model.decoder.layers.{i}.encoder_attn"),
    *writes_stream("decoder.stack.blocks.{i}.norms.cross", "model.decoder.layers.{i}.encoder_attn_layer_norm"),
)
ALIASES = {
    "num_attention_heads": "encoder_attention_heads",
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
}
SIZES = (
    key("d_model", *both_sides("d_model"), default=1024),
    key("encoder_layers", "encoder.n_layers", default=12),
    key("decoder_layers", "decoder.n_layers", default=12),
    key("encoder_attention_heads", "encoder.n_heads", default=16),
    key("decoder_attention_heads", "decoder.n_heads", default=16),
    key("encoder_ffn_dim", "encoder.d_ff", default=4096),
    key("decoder_ffn_dim", "decoder.d_ff", default=4096),
    activation("activation_function", *both_sides("feed_forward.activation"), default="gelu"),
    key("max_position_embeddings", *both_sides("max_length"), merge=max, default=1024),
    key("scale_embedding", "embeddings.scale", default=False),
    key("dropout", *both_sides("dropout"), merge=first_value, default=0.1),
    key("attention_dropout", *both_sides("attention.dropout"), merge=first_value, default=0.0),
    key("activation_dropout", *both_sides("feed_forward.dropout"), merge=first_value, default=0.0),
)
SHARED = "model.shared.weight"
ENCODER_TABLE, DECODER_TABLE = (f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))
COPIES = (
    Copy(ENCODER_TABLE, SHARED),
    Copy(DECODER_TABLE, SHARED),
    Copy("lm_head.weight", SHARED, untied="heads.language.tied", when=("embeddings.shared", True)),
    Copy("lm_head.weight", DECODER_TABLE, untied="heads.language.tied", when=("embeddings.shared", False)),
)


def stacks(block: str, ends_with_norm: bool) -> tuple[Requirement, ...]:
    """Require plain blocks with sinusoids on both sides, and embeddings without a norm or segments."""
    return (
        *plain_blocks("encoder", block, "sinusoidal", ends_with_norm),
        *plain_blocks("decoder", block, "sinusoidal", ends_with_norm),
        *exactly("encoder.norm", eps=1e-5),
        *exactly("decoder.norm", eps=1e-5),
        *exactly("embeddings", norm=None, segments=0),
    )


def sines(flat: FlatSettings) -> Tensor:
    """The sinusoidal table of all positions, all sines before all cosines."""
    longest = max(flat[path][0] for path in both_sides("max_length"))
    table: Tensor = COLUMNS.forward(sinusoids(longest, flat["encoder.d_model"][0]))
    return table


TABLES = {f"model.{side}.embed_positions.weight": sines for side in ("encoder", "decoder")}

target = Target(
    name="marian",
    model_type="marian",
    family="transformers' Marian",
    models="post-norm encoder-decoders with sinusoids (2017's)",
    example="transformer-base",
    rank=4,
    sides=("encoder", "decoder"),
    requirements=stacks("post_norm", ends_with_norm=False),
    keys=(
        key("vocab_size", "encoder.vocab_size", default=58101),
        key("decoder_vocab_size", "decoder.vocab_size", default=None, null_means=value_of("vocab_size")),
        key("share_encoder_decoder_embeddings", "embeddings.shared", default=True),
        *SIZES,
    ),
    constants={"is_encoder_decoder": True, "forced_eos_token_id": None},
    roles={**ROLES, "decoder_start_token_id": "start"},
    renames=(
        same(TOKENS.format("encoder"), SHARED, COLUMNS, when=("embeddings.shared", True)),
        same(TOKENS.format("encoder"), ENCODER_TABLE, COLUMNS, when=("embeddings.shared", False)),
        same(TOKENS.format("decoder"), DECODER_TABLE, COLUMNS, when=("embeddings.shared", False)),
        *LAYERS,
    ),
    classes=(
        translator(
            "MarianMTModel",
            requirements=(
                Requirement(
                    "heads.language.tied",
                    lambda flat: (True,) if flat["embeddings.shared"] == (True,) else (True, False),
                    "where the embeddings are shared",
                ),
                UNSCALED,
            ),
            keys=(key("tie_word_embeddings", "heads.language.tied", default=True),),
            renames=(
                same("heads.language.output.weight", "lm_head.weight", COLUMNS, when=("heads.language.tied", False)),
                LOGITS_BIAS,
            ),
        ),
    ),
    longest="encoder.max_length",
    prefix="model.",
    copies=COPIES,
    tables=TABLES,
    lenient=("forced_eos_token_id",),
    demands=NO_IS_CAUSAL,
    cache_demands=whole_cache("max_position_embeddings"),
    aliases=ALIASES,
)
register(target)
