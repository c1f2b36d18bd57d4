"""Merging layers of settings while recording which layer each value came from."""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from zoo.config import Layer, merge
from zoo.strict_yaml import Tree

LIBRARY, SET, FIRST_SET, DATA, TOKENIZER = "library", "--set", "--set of the first command", "data", "tokenizer"


class Value(NamedTuple):
    """One value of an experiment: its dotted key, and where it came from."""

    key: str
    value: Any
    origin: str


@dataclass(frozen=True)
class Traced:
    """A merged map, and for the dotted key of each value the layer that set it."""

    tree: Tree
    origins: Mapping[str, str]

    @classmethod
    def of(cls, layers: Iterable[Layer]) -> "Traced":
        """Merge layers, the lowest precedence first."""
        return functools.reduce(cls.merge_layer, layers, cls({}, {}))

    def replaced_by(self, tree: Tree, place: str, named: Iterable[str] = ()) -> "Traced":
        """The map `tree` that a further layer made of this one.

        Args:
            place: the origin that the layer's values get.
            named: dotted keys that the layer sets, even to the same value; every changed value is the layer's, too.
        """
        before, named = leaves(self.tree), set(named)
        kept = {key for key, value in leaves(tree).items() if key in before and before[key] == value} - named
        return Traced(tree, {key: self.origins.get(key, LIBRARY) if key in kept else place for key in leaves(tree)})

    def merge_layer(self, layer: Layer) -> "Traced":
        return self.replaced_by(merge(self.tree, layer.tree), layer.place, leaves(layer.tree))


def leaves(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Flatten nested maps: dotted key -> value; a list counts as one value."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= leaves(value, f"{above}{key}.") if isinstance(value, Mapping) and value else {f"{above}{key}": value}
    return found


def origin(key: str, origins: Mapping[str, str]) -> str:
    """The origin of a value, also if a layer wrote a short form: `norm: layernorm` sets `norm.name`."""
    while key:
        for spelling in (key, f"{key}.name"):
            if spelling in origins:
                return origins[spelling]
        key = key.rpartition(".")[0]
    return LIBRARY


def values_of(section: str, tree: Tree, origins: Mapping[str, str]) -> Iterator[Value]:
    """Yield every value of a section, such as `model`."""
    for key, value in leaves(tree).items():
        yield Value(f"{section}.{key}", value, origin(f"{section}.{key}", origins))
