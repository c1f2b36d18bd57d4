"""Native target `modernbert`: encoders with rotary positions, gated feed-forwards and windows, ModernBertFor… classes.

Layers are global or have a window W, in which a position attends to distances up to W // 2; each kind has its own
rotary base. The first layer has no norm before its attention, since the embeddings are normalized already.

Source: Warner et al. 2024, arXiv:2412.13663; transformers' `models/modernbert`.
"""

from collections.abc import Mapping
from typing import Any

from zoo.hub.targets.declare.classes import chooser, masked_lm, question_answerer, text_classifier, token_classifier
from zoo.hub.targets.declare.flat_settings import GLOBAL, LOCAL, in_layers
from zoo.hub.targets.declare.key import Config, Key, first_value, key
from zoo.hub.targets.declare.layer_types import layer_indices, layer_types, one_each, repeated_key
from zoo.hub.targets.declare.registry import register
from zoo.hub.targets.declare.renaming import Conversion, affine, same
from zoo.hub.targets.declare.requirements import (
    SAME_WIDTH,
    UNMASKED,
    activation,
    equal_to,
    even_heads,
    exactly,
    plain_embeddings,
    rotary_blocks,
)
from zoo.hub.targets.declare.target import ROLES, Copy, Requirement, Target

OURS = "encoder.stack.blocks.{i}"
THEIRS = "model.layers.{i}"
QKV = [f"{OURS}.mixer.attention.{name}" for name in ("query", "key", "value")]
TOKENS = "model.embeddings.tok_embeddings.weight"
GATE_AND_UP = [f"{OURS}.feed_forward.{name}" for name in ("gate", "up")]
NORM_BIAS = "encoder.norm.bias"
WINDOW = in_layers(LOCAL, "encoder.attention.window")
# ModernBERT's window counts positions on both sides; zoo's is the largest distance plus one
TWO_SIDED = Conversion(lambda window: 2 * (window - 1), lambda theirs: theirs // 2 + 1)
BASES = {  # the keys of versions 5 and 4, and the base of the published models
    GLOBAL: ("rope_parameters.full_attention.rope_theta", "global_rope_theta", 160000.0),
    LOCAL: ("rope_parameters.sliding_attention.rope_theta", "local_rope_theta", 10000.0),
}


def modernize(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a config.json with `local_attention` set from `sliding_window`, which counts positions on one side.

    Each kind of layer in `rope_parameters` may spell `rope_type` as `type`.
    """
    side, kinds = config.get("sliding_window"), config.get("rope_parameters")
    window = {"local_attention": 2 * side} if type(side) is int else {}
    if isinstance(kinds, Mapping):
        named = {kind: said for kind, said in kinds.items() if isinstance(said, Mapping) and "type" in said}
        kinds = {**kinds, **{kind: {"rope_type": said["type"], **said} for kind, said in named.items()}}
    return {**config, **window, **({} if kinds is None else {"rope_parameters": kinds})}


def older_layers(config: Config) -> list[str]:
    """The kinds of layers if the file does not list them: every n-th layer is global, starting with the first."""
    every = config("global_attn_every_n_layers") or 3
    return [LOCAL if i % every else GLOBAL for i in layer_indices(config)]


def every_nth(kinds: tuple[str, ...]) -> int | None:
    """n if exactly every n-th layer is global; None, which transformers 4 refuses, if there is no such n."""
    fits = [n for n in range(1, len(kinds) + 1) if all((kind == LOCAL) == bool(i % n) for i, kind in enumerate(kinds))]
    return fits[0] if fits else None


def bases(kind: str) -> tuple[Key, ...]:
    """The keys of the rotary base of one kind of layer, for transformers 5 and for version 4."""
    newer, older, published = BASES[kind]
    path = in_layers(kind, "encoder.position.base")
    return (
        key(newer, path, if_unset=published, default=published),
        key(older, path, if_unset=published, default=None, null_means=lambda config: config(newer)),
    )


def head_size(config: Config) -> tuple[int | None, ...]:
    """The sizes of a head that transformers' rotary positions may be given: only that of the queries and keys."""
    width, heads = config("hidden_size"), config("num_attention_heads")
    return (None, width // heads) if type(width) is type(heads) is int and heads > 0 else (None,)


def head(ours: str) -> tuple[Requirement, ...]:
    """Require the prediction head's norm to be the stack's: ModernBERT has one setting for both."""
    return (
        *exactly(ours, norm="layernorm"),
        equal_to(f"{ours}.norm.eps", "encoder.norm.eps"),
        equal_to(f"{ours}.norm.bias", "encoder.norm.bias"),
    )


def head_keys(ours: str) -> tuple[Key, ...]:
    """The keys of the prediction head's bias and activation."""
    return (
        key("classifier_bias", f"{ours}.bias", default=False),
        activation("classifier_activation", f"{ours}.activation", default="gelu"),
    )


def dropout(head: str) -> Key:
    """The key for a head's dropout."""
    return key("classifier_dropout", f"heads.{head}.dropout", default=0.0)


UNTIED = ("tie_word_embeddings",)  # classes without a masked_lm head ignore it
POOLER_KEYS = (
    *head_keys("pooler"),
    key("classifier_pooling", "pooler.mean", names={False: "cls", True: "mean"}, default="cls"),
)
PREDICTION_HEAD = (
    *affine("pooler.dense", "head.dense", biased="pooler.bias"),
    *affine("pooler.norm", "head.norm", biased=NORM_BIAS),
)
target = Target(
    name="modernbert",
    model_type="modernbert",
    family="transformers' ModernBERT",
    models="encoders with rotary positions, gated, with windows or not",
    example="bert-modern",
    rank=6,
    sides=("encoder",),
    requirements=(
        *rotary_blocks("encoder", "layernorm", first_norm=False),
        *exactly("encoder", attention="full"),
        *exactly("encoder.position", scaling=None),
        *exactly("encoder.attention", qk_norm=False),
        *even_heads("encoder"),
        *plain_embeddings(),
        SAME_WIDTH,
        *exactly("embeddings", norm="layernorm"),
        equal_to("embeddings.norm.eps", "encoder.norm.eps"),
        equal_to("embeddings.norm.bias", "encoder.norm.bias"),
    ),
    keys=(
        key("vocab_size", "encoder.vocab_size", default=50368),
        key("hidden_size", "encoder.d_model", default=768),
        key("num_hidden_layers", "encoder.n_layers", default=22),
        key("num_attention_heads", "encoder.n_heads", default=12),
        key("intermediate_size", "encoder.d_ff", default=1152),
        activation("hidden_activation", "encoder.feed_forward.activation", default="gelu"),
        key("max_position_embeddings", "encoder.max_length", default=8192),
        key("norm_eps", "encoder.norm.eps", default=1e-5),
        key("norm_bias", "encoder.norm.bias", default=False),
        key("attention_bias", "encoder.attention.bias", default=False),
        key("mlp_bias", "encoder.feed_forward.bias", default=False),
        layer_types("encoder", older_layers),
        repeated_key("global_attn_every_n_layers", "encoder", every_nth, default=None),
        key("local_attention", WINDOW, conversion=TWO_SIDED, if_unset=128, default=128),
        *bases(GLOBAL),
        *bases(LOCAL),
        key("embedding_dropout", "encoder.dropout", merge=first_value, default=0.0),
        key("attention_dropout", "encoder.attention.dropout", merge=first_value, default=0.0),
        key("mlp_dropout", "encoder.feed_forward.dropout", merge=first_value, default=0.0),
    ),
    constants={
        "rope_parameters.full_attention.rope_type": "default",
        "rope_parameters.sliding_attention.rope_type": "default",
        "decoder_bias": True,
        "sparse_prediction": False,
        "tie_word_embeddings": True,
    },
    lenient=("sparse_prediction",),
    demands={  # keys for all layers at once: scaling in its older form, and one type and base of rotary positions
        "rope_scaling": (None, {"rope_type": "default"}, {"type": "default"}),
        "rope_parameters.rope_type": (None,),
        "rope_parameters.rope_theta": (None,),
        "head_dim": head_size,
        "layer_types": one_each,
        **UNMASKED,
    },
    roles={**ROLES, "eos_token_id": "separator", "cls_token_id": "start", "sep_token_id": "separator"},
    renames=(
        same("encoder.stack.embeddings.tokens.weight", TOKENS),
        *affine("encoder.stack.embeddings.norm", "model.embeddings.norm", biased=NORM_BIAS),
        *affine(f"{OURS}.norms.mixer", f"{THEIRS}.attn_norm", start=1, biased=NORM_BIAS),
        *affine(QKV, f"{THEIRS}.attn.Wqkv", biased="encoder.attention.bias"),
        *affine(f"{OURS}.mixer.attention.output", f"{THEIRS}.attn.Wo", biased="encoder.attention.bias"),
        *affine(f"{OURS}.norms.feed_forward", f"{THEIRS}.mlp_norm", biased=NORM_BIAS),
        *affine(GATE_AND_UP, f"{THEIRS}.mlp.Wi", biased="encoder.feed_forward.bias"),
        *affine(f"{OURS}.feed_forward.down", f"{THEIRS}.mlp.Wo", biased="encoder.feed_forward.bias"),
        *affine("encoder.stack.norm", "model.final_norm", biased=NORM_BIAS),
    ),
    classes=(
        masked_lm(
            "ModernBertForMaskedLM",
            requirements=(*head("heads.masked_lm"), *exactly("heads.masked_lm", width=None)),
            keys=head_keys("heads.masked_lm"),
            renames=(
                *affine("heads.masked_lm.dense", "head.dense", biased="heads.masked_lm.bias"),
                *affine("heads.masked_lm.norm", "head.norm", biased=NORM_BIAS),
                same("heads.masked_lm.bias", "decoder.bias"),
            ),
            copies=(Copy("decoder.weight", TOKENS),),
        ),
        text_classifier(
            "ModernBertForSequenceClassification",
            ignored_constants=UNTIED,
            requirements=head("pooler"),
            keys=(*POOLER_KEYS, dropout("classification")),
            renames=(*PREDICTION_HEAD, *affine("heads.classification.output", "classifier")),
        ),
        token_classifier(
            "ModernBertForTokenClassification",
            ignored_constants=UNTIED,
            requirements=(*exactly("pooler", places=True), *head("pooler")),
            keys=(*POOLER_KEYS, dropout("tagging")),
            renames=(*PREDICTION_HEAD, *affine("heads.tagging.output", "classifier")),
        ),
        chooser(
            "ModernBertForMultipleChoice",
            ignored_constants=UNTIED,
            requirements=head("pooler"),
            keys=(*POOLER_KEYS, dropout("choice")),
            renames=(*PREDICTION_HEAD, *affine("heads.choice.output", "classifier")),
        ),
        question_answerer(
            "ModernBertForQuestionAnswering",
            ignored_constants=UNTIED,
            requirements=(*exactly("pooler", places=True), *head("pooler")),
            keys=POOLER_KEYS,
            renames=(*PREDICTION_HEAD, *affine("heads.span.output", "classifier")),
        ),
    ),
    longest="encoder.max_length",
    modernize=modernize,
    prefix="model.",
    headless_defaults={  # for a pooler that fine-tuning adds to a masked-LM checkpoint
        "pooler.activation": lambda flat: flat.get("heads.masked_lm.activation", ("gelu",))[0],
        "pooler.norm": lambda flat: "layernorm",
        "pooler.norm.eps": lambda flat: flat["encoder.norm.eps"][0],
        "pooler.norm.bias": lambda flat: flat["encoder.norm.bias"][0],
        "pooler.bias": lambda flat: flat.get("heads.masked_lm.bias", (False,))[0],
        "pooler.places": lambda flat: True,
    },
)
register(target)
