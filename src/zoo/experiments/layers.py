"""Maps laid over one another, in which each value knows where it came from."""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from zoo.config import Layer, merge
from zoo.strict_yaml import Tree

LIBRARY, SET, FIRST_SET, DATA, TOKENIZER = "library", "--set", "--set of the first command", "data", "tokenizer"


class Value(NamedTuple):
    """One value of an experiment and where it came from."""

    key: str
    value: Any
    origin: str


@dataclass(frozen=True)
class Traced:
    """A map that layers were laid into, and by the dotted place of each value the layer that it is from."""

    tree: Tree
    origins: Mapping[str, str]

    @classmethod
    def of(cls, layers: Iterable[Layer]) -> "Traced":
        """The layers laid over one another, the lowest first."""
        return functools.reduce(cls.lay, layers, cls({}, {}))

    def become(self, tree: Tree, place: str, named: Iterable[str] = ()) -> "Traced":
        """The map after one more layer.

        Args:
            named: the values that the layer sets; others that differ from before are the layer's, too.
        """
        before, named = leaves(self.tree), set(named)
        kept = {key for key, value in leaves(tree).items() if key in before and before[key] == value} - named
        return Traced(tree, {key: self.origins.get(key, LIBRARY) if key in kept else place for key in leaves(tree)})

    def lay(self, layer: Layer) -> "Traced":
        return self.become(merge(self.tree, layer.tree), layer.place, leaves(layer.tree))


def leaves(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """The values of a tree of maps by their dotted places; a list is one value."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= leaves(value, f"{above}{key}.") if isinstance(value, Mapping) and value else {f"{above}{key}": value}
    return found


def origin(key: str, origins: Mapping[str, str]) -> str:
    """Where a value is from, also where a layer wrote it shorter: `norm: layernorm` is `norm.name`."""
    while key:
        for spelling in (key, f"{key}.name"):
            if spelling in origins:
                return origins[spelling]
        key = key.rpartition(".")[0]
    return LIBRARY


def values_of(section: str, tree: Tree, origins: Mapping[str, str]) -> Iterator[Value]:
    """Every value of a section."""
    for key, value in leaves(tree).items():
        yield Value(f"{section}.{key}", value, origin(f"{section}.{key}", origins))
