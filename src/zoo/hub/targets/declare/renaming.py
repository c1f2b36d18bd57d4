"""Rename tables: which zoo tensors form which transformers tensor, and how they are converted in both directions."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, takewhile
from typing import Any

import torch
from torch import Tensor

from zoo.hub.targets.declare.flat_settings import FlatSettings

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Conversion:
    """A conversion of a tensor or a setting into transformers' form, and its inverse.

    Args:
        forward: zoo's value -> transformers' value.
        inverse: its inverse; None: the setting is not read back, since other keys hold it too.
    """

    forward: Callable[[Any], Any]
    inverse: Callable[[Any], Any] | None


AnyConversion = Conversion | Callable[[FlatSettings], Conversion]


def halves(n: int) -> Tensor:
    """The permutation 0, 2, 4, …, 1, 3, 5, …, which moves all sines before all cosines where they were interleaved."""
    return torch.cat([torch.arange(0, n, 2), torch.arange(1, n, 2)])


def split_halves(axis: int) -> Conversion:
    """Move the even indices of an axis before the odd ones."""
    return Conversion(
        lambda t: t.index_select(axis, halves(t.shape[axis])),
        lambda t: t.index_select(axis, halves(t.shape[axis]).argsort()),
    )


TRANSPOSED = Conversion(lambda t: t.T, lambda t: t.T)  # transformers' Conv1D stores a linear layer's weight transposed
ROW = Conversion(lambda t: t[None], lambda t: t[0])  # a vector stored as a matrix with one row


@dataclass(frozen=True)
class Rename:
    """One or more zoo tensors that, concatenated along the first axis, form one transformers tensor.

    Args:
        ours, theirs: names in zoo and in transformers; `{i}` stands for the layer index.
        conversions: in the order of export; a function makes one from the model's settings, such as the number of heads
            by which rows are ordered.
        when: (path, value): the tensor exists only if the setting at `path` has this value.
        start: the first layer that has the tensor.
    """

    ours: tuple[str, ...]
    theirs: str
    conversions: tuple[AnyConversion, ...] = ()
    when: tuple[str, Any] | None = None
    start: int = 0

    def layer(self, i: int) -> "Rename":
        """The entry for layer `i`."""
        return Rename(tuple(name.format(i=i) for name in self.ours), self.theirs.format(i=i), self.conversions)

    def resolve(self, flat: FlatSettings) -> "Rename":
        """The entry with its conversions resolved for one model."""
        made = (each if isinstance(each, Conversion) else each(flat) for each in self.conversions)
        return replace(self, conversions=tuple(made))

    def to_transformers(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Convert zoo's tensors to the transformers tensor, which shares no memory with them."""
        parts = [tensors[name] for name in self.ours]
        tensor = torch.cat(parts) if len(parts) > 1 else parts[0].clone()  # torch.cat rejects scalars
        for conversion in self.conversions:
            assert isinstance(conversion, Conversion)  # `expand` has resolved the functions
            tensor = conversion.forward(tensor)
        return tensor.contiguous()

    def to_zoo(self, tensor: Tensor) -> Tensors:
        """Convert the transformers tensor back to zoo's tensors."""
        for conversion in reversed(self.conversions):
            assert isinstance(conversion, Conversion)
            assert conversion.inverse is not None, f"{self.theirs} cannot be read back"
            tensor = conversion.inverse(tensor)
        parts = tensor.chunk(len(self.ours)) if len(self.ours) > 1 else (tensor,)
        return {name: part.contiguous() for name, part in zip(self.ours, parts, strict=True)}


def same(ours: str, theirs: str, *conversions: AnyConversion, when: tuple[str, Any] | None = None) -> Rename:
    """A `Rename` of one zoo tensor to one transformers tensor."""
    return Rename((ours,), theirs, conversions, when)


def affine(
    ours: str | Sequence[str],
    theirs: str,
    weight: Sequence[AnyConversion] = (),
    bias: Sequence[AnyConversion] = (),
    start: int = 0,
    biased: str | None = None,
) -> tuple[Rename, Rename]:
    """The weight and bias of a linear layer or a norm; several zoo modules are concatenated.

    Args:
        biased: path of the setting that says whether there is a bias; None: there always is one.
    """
    when = None if biased is None else (biased, True)
    names = (ours,) if isinstance(ours, str) else ours
    return (
        Rename(tuple(f"{name}.weight" for name in names), f"{theirs}.weight", tuple(weight), start=start),
        Rename(tuple(f"{name}.bias" for name in names), f"{theirs}.bias", tuple(bias), when, start),
    )


def expand(renames: Sequence[Rename], flat: FlatSettings, ours: Container[str]) -> Iterator[Rename]:
    """Yield the entries that apply to one model, layer by layer.

    Args:
        ours: the names of the model's tensors.
    """
    for rename in renames:
        if rename.when is None or flat[rename.when[0]] == (rename.when[1],):
            made = rename.resolve(flat)
            layers = map(made.layer, count(made.start)) if "{i}" in made.theirs else [made]
            yield from takewhile(lambda entry: entry.ours[0] in ours, layers)
