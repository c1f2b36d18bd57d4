"""Rename tables: which tensor of ours is which of theirs, and what is done to it on the way there and back."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, takewhile
from typing import Any

import torch
from torch import Tensor

from zoo.hub.targets.declare.flat_settings import FlatSettings

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Change:
    """What is done to a tensor or a setting on its way to their files, and its inverse.

    Args:
        back: None: a setting that is not read back, since other keys say it too.
    """

    there: Callable[[Any], Any]
    back: Callable[[Any], Any] | None


AnyChange = Change | Callable[[FlatSettings], Change]


def halves(n: int) -> Tensor:
    """0, 2, 4, …, 1, 3, 5, …: from interleaved sines and cosines to all sines before all cosines."""
    return torch.cat([torch.arange(0, n, 2), torch.arange(1, n, 2)])


def split_halves(axis: int) -> Change:
    """Put the even places of an axis before the odd ones."""
    return Change(
        lambda t: t.index_select(axis, halves(t.shape[axis])),
        lambda t: t.index_select(axis, halves(t.shape[axis]).argsort()),
    )


TRANSPOSED = Change(lambda t: t.T, lambda t: t.T)  # their Conv1D is a linear map with its matrix transposed
ROW = Change(lambda t: t[None], lambda t: t[0])  # a vector kept as a matrix of one row


@dataclass(frozen=True)
class Rename:
    """Tensors of ours, one after the other along their first axis, are one of theirs.

    Args:
        ours, theirs: names; `{i}` stands for every layer.
        through: what is done to the tensor, in the order of the way there; a function makes its change from the model's
            settings (rows ordered by heads need the number of heads).
        when: (path, value) of the setting without which the tensor is not there.
        start: the first layer that has it.
    """

    ours: tuple[str, ...]
    theirs: str
    through: tuple[AnyChange, ...] = ()
    when: tuple[str, Any] | None = None
    start: int = 0

    def layer(self, i: int) -> "Rename":
        return Rename(tuple(name.format(i=i) for name in self.ours), self.theirs.format(i=i), self.through)

    def of(self, flat: FlatSettings) -> "Rename":
        """The entry for one model."""
        made = (change if isinstance(change, Change) else change(flat) for change in self.through)
        return replace(self, through=tuple(made))

    def there(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Their tensor, from ours; it shares no memory with them."""
        parts = [tensors[name] for name in self.ours]
        tensor = torch.cat(parts) if len(parts) > 1 else parts[0].clone()  # a single number cannot be concatenated
        for change in self.through:
            assert isinstance(change, Change)  # `expand` has asked the functions
            tensor = change.there(tensor)
        return tensor.contiguous()

    def back(self, tensor: Tensor) -> Tensors:
        """Our tensors, from theirs."""
        for change in reversed(self.through):
            assert isinstance(change, Change) and change.back is not None, f"{self.theirs} cannot be read back"
            tensor = change.back(tensor)
        parts = tensor.chunk(len(self.ours)) if len(self.ours) > 1 else (tensor,)
        return {name: part.contiguous() for name, part in zip(self.ours, parts, strict=True)}


def same(ours: str, theirs: str, *through: AnyChange, when: tuple[str, Any] | None = None) -> Rename:
    """One tensor of each side."""
    return Rename((ours,), theirs, through, when)


def affine(
    ours: str | Sequence[str],
    theirs: str,
    weight: Sequence[AnyChange] = (),
    bias: Sequence[AnyChange] = (),
    start: int = 0,
    biased: str | None = None,
) -> tuple[Rename, Rename]:
    """Weight and bias of a linear map or a norm; of several of ours, one after the other.

    Args:
        biased: the setting that says whether there is a bias.
    """
    when = None if biased is None else (biased, True)
    names = (ours,) if isinstance(ours, str) else ours
    return (
        Rename(tuple(f"{name}.weight" for name in names), f"{theirs}.weight", tuple(weight), start=start),
        Rename(tuple(f"{name}.bias" for name in names), f"{theirs}.bias", tuple(bias), when, start),
    )


def expand(renames: Sequence[Rename], flat: FlatSettings, ours: Container[str]) -> Iterator[Rename]:
    """The table for one model: the entries of settings and tensors that it has, layer by layer.

    Args:
        ours: the names of its tensors.
    """
    for rename in renames:
        if rename.when is None or flat[rename.when[0]] == (rename.when[1],):
            made = rename.of(flat)
            layers = map(made.layer, count(made.start)) if "{i}" in made.theirs else [made]
            yield from takewhile(lambda entry: entry.ours[0] in ours, layers)
