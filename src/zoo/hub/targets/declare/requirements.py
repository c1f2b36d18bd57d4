"""Requirements that several targets share, such as the attention, feed-forward and norm of the first Transformers."""

from collections.abc import Mapping
from typing import Any

from zoo.hub.targets.declare.flat_settings import FlatSettings
from zoo.hub.targets.declare.key import Config, Key, key
from zoo.hub.targets.declare.target import Accepted, Requirement

# zoo's name -> transformers' name, in every family but GPT-1
ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu", "silu": "silu", "relu_squared": "relu2"}
# synonyms in transformers -> the name that export writes
ACTIVATION_SYNONYMS = {"gelu_pytorch_tanh": "gelu_new", "gelu_fast": "gelu_new", "gelu_python": "gelu", "swish": "silu"}


def activation(theirs: str, *paths: str, default: str) -> Key:
    """A key whose value names an activation."""
    return key(theirs, *paths, names=ACTIVATIONS, synonyms=ACTIVATION_SYNONYMS, default=default)


def equal_to(path: str, other: str) -> Requirement:
    """Require a setting to equal another one."""
    return Requirement(path, lambda flat: flat[other], f"as {other}")


def both_sides(*names: str) -> tuple[str, ...]:
    """The paths of settings on both sides."""
    return tuple(f"{side}.{name}" for name in names for side in ("encoder", "decoder"))


def exactly(prefix: str, **values: Any) -> tuple[Requirement, ...]:
    """Require settings under one prefix to have these values."""
    return tuple(Requirement(f"{prefix}.{name}", (value,)) for name, value in values.items())


def plain_attention(side: str) -> tuple[Requirement, ...]:
    """Require full attention with biases, heads of width d_model / n_heads, and no window, QK norm or sinks."""
    return (
        *exactly(side, mixer="attention", attention="full"),
        *exactly(f"{side}.attention", score="scaled_dot", window=None, qk_norm=False, sinks=False, bias=True),
        *even_heads(side),
    )


def even_heads(side: str) -> tuple[Requirement, ...]:
    """Require queries, keys and values of width d_model / n_heads per head."""
    paths = (f"{side}.attention.{width}" for width in ("d_key", "d_value"))
    return tuple(Requirement(path, lambda flat: even_widths(flat, side), "d_model / n_heads") for path in paths)


def even_widths(flat: FlatSettings, side: str) -> tuple[float, ...]:
    """d_model / n_heads for each n_heads in the stack; a fraction, which no width equals, where it is not whole."""
    (d_model,) = flat[f"{side}.d_model"]
    return tuple(d_model / n if d_model % n else d_model // n for n in flat[f"{side}.n_heads"])


def rotary_blocks(side: str, norm: str, first_norm: bool) -> tuple[Requirement, ...]:
    """Require pre-norm blocks with a final norm, rotary positions and gated feed-forwards; biases are free."""
    return (
        *exactly(side, block="pre_norm", norm=norm, first_norm=first_norm),
        Requirement(f"{side}.final_norm", (None, True)),
        *exactly(side, position="rotary", feed_forward="gated", mixer="attention"),
        *exactly(f"{side}.attention", score="scaled_dot", sinks=False),
    )


def cached_window(path: str) -> Requirement:
    """Require no window, or one of at least 2.

    With a window of 1 transformers' key/value cache discards nothing, so it generates other texts than zoo.
    """
    return Requirement(path, lambda flat: (None, *(w for w in flat.get(path, ()) if w != 1), 2), "or more")


def plain_layernorm(path: str) -> tuple[Requirement, ...]:
    """Require a layernorm with gain and bias."""
    return Requirement(path, ("layernorm",)), Requirement(f"{path}.bias", (True,))


def plain_blocks(side: str, block: str, position: str, ends_with_norm: bool) -> tuple[Requirement, ...]:
    """Require one kind of block and position, layernorms, plain attention, and two-layer feed-forwards with biases."""
    return (
        *exactly(side, block=block),
        *plain_layernorm(f"{side}.norm"),
        *exactly(side, first_norm=True),
        Requirement(f"{side}.final_norm", (None, ends_with_norm)),
        *exactly(side, position=position),
        *plain_attention(side),
        *exactly(side, feed_forward="mlp"),
        *exactly(f"{side}.feed_forward", bias=True),
    )


# for `demands`: with `is_causal` transformers 5 makes all attention causal or not, in encoder and decoder alike
CAUSAL: Mapping[str, tuple[Any, ...]] = {"is_causal": (True,)}
UNMASKED: Mapping[str, tuple[Any, ...]] = {"is_causal": (False, None)}
NO_IS_CAUSAL: Mapping[str, tuple[Any, ...]] = {"is_causal": ()}  # the sides differ, so every value is refused
LAYER_TYPES, FULL = "layer_types", "full_attention"
SEGMENTS = "embeddings.segments"
# `flatten` writes the width out; null comes first, so that import leaves a derived width unset
SAME_WIDTH = Requirement("embeddings.width", lambda flat: (None, *flat["encoder.d_model"]), "as encoder.d_model")
UNSCALED = Requirement("heads.language.scale", (False,))


def plain_language() -> tuple[Requirement, ...]:
    """Require logits without scaling and without a bias."""
    return Requirement("heads.language.bias", (False,)), UNSCALED


def plain_embeddings(segments: bool = False) -> tuple[Requirement, ...]:
    """Require unscaled token embeddings, with any number of segment embeddings or with none."""
    none, some = Requirement(SEGMENTS, (0,)), Requirement(SEGMENTS, lambda flat: (flat[SEGMENTS][0] or 1,), "or more")
    return Requirement("embeddings.scale", (False,)), some if segments else none


def whole_cache(longest: str, *kinds: str) -> Mapping[str, Accepted]:
    """For `cache_demands`: transformers' key/value cache must keep every position that the model reads.

    The cache of any family follows these keys, even if its attention has no window: `generate` then drops positions,
    and gives other texts than the logits promise.

    Args:
        longest: the key of the maximum length. kinds: the kinds of layers in `layer_types`, of which all have one; by
            default, they have no window. A family with a window has a key for it.
    """

    def long_enough(theirs: str) -> Accepted:
        def accepted(config: Config) -> tuple[Any, ...]:
            window, most = config(theirs), config(longest)
            wide = type(window) is type(most) is int and window > most
            return (None, window if wide or each_is(FULL, config) else most)

        return accepted

    def alike(config: Config) -> tuple[Any, ...]:
        known = any(each_is(kind, config) for kind in kinds or (FULL,))
        return (None, config(LAYER_TYPES)) if known else (None,)

    def each_is(kind: str, config: Config) -> bool:
        layers = config(LAYER_TYPES)  # which the cache follows first
        return isinstance(layers, list) and all(each == kind for each in layers)

    windows = ("attention_chunk_size", *([] if kinds else ["sliding_window"]))
    return {**{theirs: long_enough(theirs) for theirs in windows}, LAYER_TYPES: alike}
