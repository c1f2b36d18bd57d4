"""Requirements that several targets share: the plain attention, feed-forward and norm of the first Transformers."""

from collections.abc import Mapping
from typing import Any

from zoo.hub.targets.declare.flat_settings import FlatSettings
from zoo.hub.targets.declare.key import Key, key
from zoo.hub.targets.declare.target import Requirement

# ours -> theirs, in every family but GPT-1
ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu", "silu": "silu", "relu_squared": "relu2"}
# what they call by several names -> the one that export writes
SAME_ACTIVATIONS = {"gelu_pytorch_tanh": "gelu_new", "gelu_fast": "gelu_new", "gelu_python": "gelu", "swish": "silu"}


def activation(theirs: str, *paths: str, default: str) -> Key:
    """A key that names an activation."""
    return key(theirs, *paths, names=ACTIVATIONS, also=SAME_ACTIVATIONS, default=default)


def as_in(path: str, other: str) -> Requirement:
    """A setting that must be as another one is."""
    return Requirement(path, lambda flat: flat[other], f"as {other}")


def both(*names: str) -> tuple[str, ...]:
    """Settings of both sides."""
    return tuple(f"{side}.{name}" for name in names for side in ("encoder", "decoder"))


def exactly(prefix: str, **values: Any) -> tuple[Requirement, ...]:
    """Settings under one prefix that must have these values."""
    return tuple(Requirement(f"{prefix}.{name}", (value,)) for name, value in values.items())


def plain_attention(side: str) -> tuple[Requirement, ...]:
    """Heads of their own, d_model / n_heads wide, that see everything, with biases and nothing else learned."""
    return (
        *exactly(side, mixer="attention", attention="full"),
        *exactly(f"{side}.attention", score="scaled_dot", window=None, qk_norm=False, sinks=False, bias=True),
        *even_heads(side),
    )


def even_heads(side: str) -> tuple[Requirement, ...]:
    """Queries, keys and values d_model / n_heads wide."""
    paths = (f"{side}.attention.{width}" for width in ("d_key", "d_value"))
    return tuple(Requirement(path, lambda flat: even_widths(flat, side), "d_model / n_heads") for path in paths)


def even_widths(flat: FlatSettings, side: str) -> tuple[float, ...]:
    """d_model / n_heads, for every n_heads of a layer; no whole number where heads do not fill the model."""
    (d_model,) = flat[f"{side}.d_model"]
    return tuple(d_model / n if d_model % n else d_model // n for n in flat[f"{side}.n_heads"])


def rotary_blocks(side: str, norm: str, first_norm: bool) -> tuple[Requirement, ...]:
    """Pre-norm blocks that end with a norm, rotary positions, gated feed-forward; whether maps have biases is free."""
    return (
        *exactly(side, block="pre_norm", norm=norm, first_norm=first_norm),
        Requirement(f"{side}.final_norm", (None, True)),
        *exactly(side, position="rotary", feed_forward="gated", mixer="attention"),
        *exactly(f"{side}.attention", score="scaled_dot", sinks=False),
    )


def cached_window(path: str) -> Requirement:
    """A window of at least 2: with one of 1 their cache forgets nothing, and generates other texts."""
    return Requirement(path, lambda flat: (None, *(w for w in flat.get(path, ()) if w != 1), 2), "or more")


def plain_layernorm(path: str) -> tuple[Requirement, ...]:
    """Gain and bias."""
    return Requirement(path, ("layernorm",)), Requirement(f"{path}.bias", (True,))


def plain_blocks(side: str, block: str, position: str, ends_with_norm: bool) -> tuple[Requirement, ...]:
    """One kind of block, each with all its norms, and of position; feed-forwards of two maps with biases."""
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


# for `demands`: by this key transformers 5 says of all places of a model, of either side, whether they see those behind
CAUSAL: Mapping[str, tuple[Any, ...]] = {"is_causal": (True,)}
UNMASKED: Mapping[str, tuple[Any, ...]] = {"is_causal": (False, None)}
EACH_ITS_WAY: Mapping[str, tuple[Any, ...]] = {"is_causal": ()}
SEGMENTS = "embeddings.segments"
# what is written out in `FlatSettings`; null, so that importing writes no width that follows from another
SAME_WIDTH = Requirement("embeddings.width", lambda flat: (None, *flat["encoder.d_model"]), "as encoder.d_model")
UNSCALED = Requirement("heads.language.scale", (False,))


def plain_language() -> tuple[Requirement, ...]:
    """Scores of the states as they are, without a bias."""
    return Requirement("heads.language.bias", (False,)), UNSCALED


def plain_embeddings(segments: bool = False) -> tuple[Requirement, ...]:
    """Token vectors as they are, with segment vectors, however many, or without."""
    none, some = Requirement(SEGMENTS, (0,)), Requirement(SEGMENTS, lambda flat: (flat[SEGMENTS][0] or 1,), "or more")
    return Requirement("embeddings.scale", (False,)), some if segments else none
