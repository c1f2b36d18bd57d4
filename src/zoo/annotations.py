"""Type annotations of settings: which values they accept, and their description in messages."""

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Annotated, Any, Protocol, Union, get_args, get_origin

UNIONS = (Union, types.UnionType)
MAPS = (dict, Mapping)


@typing.runtime_checkable
class Named(Protocol):
    """Metadata of `Annotated[…]` with a name: a slot of the registry, which imports this module."""

    name: str


@dataclass(frozen=True)
class PerLayer:
    """Values cycled over the layers of a stack: layer i reads values[i % len(values)]."""

    values: tuple[Any, ...]

    def at(self, layer: int) -> Any:
        return self.values[layer % len(self.values)]


def members(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, or the annotation itself."""
    return get_args(annotation) if get_origin(annotation) in UNIONS else (annotation,)


def takes_list(annotation: Any) -> bool:
    """Whether the annotation accepts a list as its value, so that a list is not cycled over layers."""
    if get_origin(annotation) in (Annotated, *UNIONS):
        return any(takes_list(a) for a in get_args(annotation))
    return (get_origin(annotation) or annotation) in (Any, list, tuple)


def pair_up(values: Sequence[Any], annotation: Any, place: str) -> list[tuple[Any, Any]]:
    """Pair each value of a list with its annotation; `tuple[A, B]` needs two values, `tuple[A, ...]` any number.

    Raises:
        ValueError: the number of values is wrong.
    """
    arguments = get_args(annotation)
    if get_origin(annotation) is list or arguments[-1] is Ellipsis:
        return [(value, arguments[0]) for value in values]
    if len(values) != len(arguments):
        raise ValueError(f"{place}: expected {describe(annotation)}, got {list(values)}")
    return list(zip(values, arguments, strict=True))


def describe(annotation: Any) -> str:
    """A type in a user's words, for messages."""
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "null"}
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in words:
        return words[annotation]
    if origin is Annotated:
        return f"the name of a {arguments[1].name}" if isinstance(arguments[1], Named) else describe(arguments[0])
    if origin in UNIONS:
        return " or ".join(describe(a) for a in arguments if a is not PerLayer)
    if origin is typing.Literal:
        return " or ".join(map(repr, arguments))
    if origin is tuple and arguments[-1] is not Ellipsis:
        return f"a list of {len(arguments)} values"
    if (origin or annotation) in (list, tuple):
        return "a list"
    if (origin or annotation) in MAPS or is_dataclass(annotation):
        return "a map"
    return str(getattr(annotation, "__name__", annotation))
