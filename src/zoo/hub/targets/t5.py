"""Native target `t5`: pre-norm encoder-decoders with relative positions that are transformers' T5For… class.

Version 1.0 ties its head to the token embeddings and divides the hidden states before it by sqrt(d_model). Version 1.1
has an untied head without that division.

Source: Raffel et al. 2020, arXiv:1910.10683; transformers' `models/t5`.
"""

from collections.abc import Mapping
from typing import Any

from zoo.hub.targets.declare.classes import translator
from zoo.hub.targets.declare.key import Config, first_value, key, value_of
from zoo.hub.targets.declare.recipes import T5
from zoo.hub.targets.declare.registry import register
from zoo.hub.targets.declare.renaming import Conversion, Rename, same
from zoo.hub.targets.declare.requirements import NO_IS_CAUSAL, both_sides, equal_to, exactly, whole_cache
from zoo.hub.targets.declare.target import Copy, Requirement, Target

FEED_FORWARDS = {
    ("mlp", "relu"): "relu",
    ("gated", "gelu_tanh"): "gated-gelu",
    ("gated", "silu"): "gated-silu",
    ("gated", "relu"): "gated-relu",
    ("mlp", "gelu_tanh"): "gelu_new",
    ("mlp", "gelu"): "gelu",
    ("mlp", "silu"): "silu",
}


def blocks(side: str) -> tuple[Requirement, ...]:
    """Require pre-norm blocks without biases, unscaled attention scores, and a final norm."""
    return (
        *exactly(side, block="pre_norm", norm="rmsnorm", first_norm=True),
        Requirement(f"{side}.final_norm", (None, True)),
        *exactly(side, position="relative", mixer="attention", attention="full"),
        *exactly(f"{side}.attention", score="dot", window=None, qk_norm=False, sinks=False, bias=False),
        equal_to(f"{side}.attention.d_value", f"{side}.attention.d_key"),
        *exactly(f"{side}.feed_forward", bias=False),
    )


def attention(ours: str, theirs: str) -> tuple[Rename, ...]:
    """The four linear layers of attention."""
    names = {"query": "q", "key": "k", "value": "v", "output": "o"}
    return tuple(same(f"{ours}.{name}.weight", f"{theirs}.{letter}.weight") for name, letter in names.items())


def feed_forward(side: str, theirs: str) -> tuple[Rename, ...]:
    """The tensors of a feed-forward: two linear layers, or three if one of them is a gate."""
    ours, kind = f"{side}.stack.blocks.{{i}}", f"{side}.feed_forward"
    return (
        same(f"{ours}.feed_forward.up.weight", f"{theirs}.DenseReluDense.wi.weight", when=(kind, "mlp")),
        same(f"{ours}.feed_forward.gate.weight", f"{theirs}.DenseReluDense.wi_0.weight", when=(kind, "gated")),
        same(f"{ours}.feed_forward.up.weight", f"{theirs}.DenseReluDense.wi_1.weight", when=(kind, "gated")),
        same(f"{ours}.feed_forward.down.weight", f"{theirs}.DenseReluDense.wo.weight"),
        same(f"{ours}.norms.feed_forward.weight", f"{theirs}.layer_norm.weight"),
    )


def stack(side: str, last: int) -> tuple[Rename, ...]:
    """A side's tensors; `last` is the index of the feed-forward among the sublayers of a T5 block."""
    ours, theirs = f"{side}.stack.blocks.{{i}}", f"{side}.block.{{i}}.layer"
    table = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    return (
        same(f"{side}.stack.positions.0.table.weight", table),
        *attention(f"{ours}.mixer.attention", f"{theirs}.0.SelfAttention"),
        same(f"{ours}.norms.mixer.weight", f"{theirs}.0.layer_norm.weight"),
        *feed_forward(side, f"{theirs}.{last}"),
        same(f"{side}.stack.norm.weight", f"{side}.final_layer_norm.weight"),
    )


def decoder_depth(config: Config) -> Any:
    """The number of decoder layers; by default the encoder's."""
    return config("num_decoder_layers") or config("num_layers")


def modernize(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a config.json with `dense_act_fn`, which takes precedence, merged into `feed_forward_proj`.

    A null `scale_decoder_outputs` becomes false, as transformers reads it.
    """
    named, own = config.get("feed_forward_proj", "relu"), config.get("dense_act_fn")
    gate, _, act = str(named).rpartition("-")
    changed = {"scale_decoder_outputs": False} if config.get("scale_decoder_outputs", True) is None else {}
    if own is None or own == ("gelu_new" if named == "gated-gelu" else act):
        return {**config, **changed}
    known = {("gated", "gelu_new"): "gated-gelu", ("gated", "gelu"): "gated-gelu, and dense_act_fn gelu"}
    proj = known.get((gate, str(own)), f"{gate}-{own}" if gate else own)
    return {**config, **changed, "feed_forward_proj": proj}


target = Target(
    name="t5",
    model_type="t5",
    family="transformers' T5",
    models="encoder-decoders with relative positions: rmsnorm, scores `dot`, no biases",
    example="t5-small",
    sides=("encoder", "decoder"),
    requirements=(
        *blocks("encoder"),
        *blocks("decoder"),
        equal_to("decoder.feed_forward", "encoder.feed_forward"),
        equal_to("decoder.feed_forward.activation", "encoder.feed_forward.activation"),
        *exactly("embeddings", scale=False, norm=None, segments=0, shared=True),
    ),
    keys=(
        key("vocab_size", *both_sides("vocab_size"), default=32128),
        key("d_model", *both_sides("d_model"), default=512),
        key("d_kv", *both_sides("attention.d_key"), default=64),
        key("d_ff", *both_sides("d_ff"), default=2048),
        key("num_layers", "encoder.n_layers", default=6),
        key("num_decoder_layers", "decoder.n_layers", default=None, null_means=decoder_depth),
        # the model ignores it, but generate() creates a cache with this many layers, else with the encoder's
        key("decoder_layers", "decoder.n_layers", conversion=Conversion(int, None), default=None),
        key("num_heads", *both_sides("n_heads"), default=8),
        key("relative_attention_num_buckets", *both_sides("position.buckets"), default=32),
        key("relative_attention_max_distance", *both_sides("position.max_distance"), default=128),
        key("layer_norm_epsilon", *both_sides("norm.eps"), default=1e-6),
        key(
            "feed_forward_proj",
            "encoder.feed_forward",
            "encoder.feed_forward.activation",
            names=FEED_FORWARDS,
            joined=True,
            default="relu",
            synonyms={"gated-gelu_new": "gated-gelu"},
        ),
        key("n_positions", *both_sides("max_length"), merge=max, default=512),  # the tasks' limit, not the model's
        key(
            "dropout_rate",
            *both_sides("dropout", "attention.dropout", "feed_forward.dropout"),
            merge=first_value,
            default=0.1,
        ),
    ),
    constants={"is_encoder_decoder": True},
    roles={"pad_token_id": "pad", "eos_token_id": "end", "decoder_start_token_id": "start"},
    renames=(
        same("encoder.stack.embeddings.tokens.weight", "shared.weight"),
        *stack("encoder", last=1),
        *stack("decoder", last=2),
        *attention("decoder.stack.blocks.{i}.cross", "decoder.block.{i}.layer.1.EncDecAttention"),
        same("decoder.stack.blocks.{i}.norms.cross.weight", "decoder.block.{i}.layer.1.layer_norm.weight"),
    ),
    copies=tuple(Copy(f"{side}.embed_tokens.weight", "shared.weight") for side in ("encoder", "decoder")),
    classes=(
        translator(
            "T5ForConditionalGeneration",
            requirements=(
                *exactly("heads.language", bias=False),
                Requirement(
                    "heads.language.scale",
                    lambda flat: (True, False) if flat["heads.language.tied"] == (True,) else (False,),
                    "where the head has a matrix of its own",
                ),
            ),
            keys=(
                key("tie_word_embeddings", "heads.language.tied", default=True),
                # since transformers 5; before, tied heads were always scaled
                key(
                    "scale_decoder_outputs",
                    "heads.language.scale",
                    default=None,
                    null_means=value_of("tie_word_embeddings"),
                ),
            ),
            renames=(same("heads.language.output.weight", "lm_head.weight", when=("heads.language.tied", False)),),
            copies=(Copy("lm_head.weight", "shared.weight", untied="heads.language.tied"),),
        ),
    ),
    longest="encoder.max_length",
    aliases={
        "hidden_size": "d_model",
        "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_layers",
        "head_dim": "d_kv",
    },
    modernize=modernize,
    demands={
        **NO_IS_CAUSAL,
        "decoder_layers": lambda config: (None, decoder_depth(config)),
        "is_gated_act": lambda config: (None, str(config("feed_forward_proj")).startswith("gated-")),
    },
    cache_demands=whole_cache("n_positions"),
    recipe=T5,
    strays=("EncDecAttention.relative_attention_bias.weight",),
)
register(target)
