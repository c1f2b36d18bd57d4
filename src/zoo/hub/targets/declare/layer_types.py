"""The key `layer_types` of newer transformers families: which layers of a stack have an attention window."""

from collections.abc import Callable, Sequence
from typing import Any

from zoo.hub.targets.declare.flat_settings import GLOBAL, LOCAL
from zoo.hub.targets.declare.key import Config, Key, key
from zoo.hub.targets.declare.renaming import Conversion
from zoo.models.kinds.layer import MAX_LAYERS

THEIRS = {GLOBAL: "full_attention", LOCAL: "sliding_attention"}
OURS = {theirs: ours for ours, theirs in THEIRS.items()}


def layer_types(side: str, older: Callable[[Config], Sequence[str]]) -> Key:
    """The key that lists the kind of each layer of a side.

    Args:
        older: computes zoo's kinds of layers from other keys, for files without the list.
    """
    words = Conversion(
        lambda kinds: [THEIRS[kind] for kind in kinds], lambda named: tuple(OURS[word] for word in named)
    )
    return key(
        "layer_types",
        f"{side}.layers",
        conversion=words,
        default=None,
        null_means=lambda config: [THEIRS[kind] for kind in older(config)],
    )


def one_each(config: Config) -> tuple[Any, ...]:
    """For `Target.demands`: `layer_types` must name the kind of every layer."""
    kinds, layers = config("layer_types"), config("num_hidden_layers")
    short = isinstance(kinds, list) and type(layers) is int and len(kinds) < layers
    return (f"a kind for each of {layers} layers" if short else kinds,)


def layer_indices(config: Config) -> range:
    """The indices of the layers, capped at the most that zoo allows; a larger number in the file is refused later."""
    return range(min(config("num_hidden_layers"), MAX_LAYERS))


def repeated_key(theirs: str, side: str, said: Callable[[tuple[str, ...]], Any], default: Any) -> Key:
    """A write-only key that repeats `layer_types` in another form; `said` computes it from the kinds of layers."""
    return key(theirs, f"{side}.layers", conversion=Conversion(said, None), default=default)
