"""The key `layer_types`: which layers of a stack have a window, as newer families of transformers list it."""

from collections.abc import Callable, Sequence
from typing import Any

from zoo.hub.targets.declare.flat_settings import GLOBAL, LOCAL
from zoo.hub.targets.declare.key import Config, Key, key
from zoo.hub.targets.declare.renaming import Change
from zoo.models.kinds.layer import MOST_LAYERS

THEIRS = {GLOBAL: "full_attention", LOCAL: "sliding_attention"}
OURS = {theirs: ours for ours, theirs in THEIRS.items()}


def layer_types(side: str, older: Callable[[Config], Sequence[str]]) -> Key:
    """The kinds of a side's layers.

    Args:
        older: our kinds of layers, from the keys of files that do not list them.
    """
    words = Change(lambda kinds: [THEIRS[kind] for kind in kinds], lambda named: tuple(OURS[word] for word in named))
    return key(
        "layer_types",
        f"{side}.layers",
        through=words,
        default=None,
        null=lambda config: [THEIRS[kind] for kind in older(config)],
    )


def numbers(config: Config) -> range:
    """The layers' numbers, from 0; where a file claims more than there can be, and is refused later, the first ones."""
    return range(min(config("num_hidden_layers"), MOST_LAYERS))


def also(theirs: str, side: str, said: Callable[[tuple[str, ...]], Any], default: Any) -> Key:
    """A key that says with other words what `layer_types` says; `said` makes its value of the kinds of layers."""
    return key(theirs, f"{side}.layers", through=Change(said, None), default=default)
