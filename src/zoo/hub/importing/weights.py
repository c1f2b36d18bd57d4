"""Tensors of a stranger's folder under our names: rename tables run backwards."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from zoo.hub.sources.headers import SHOWN, TensorInfo, load
from zoo.hub.targets.declare.flat_settings import FlatSettings, flatten
from zoo.hub.targets.declare.renaming import Rename, Tensors, expand
from zoo.hub.targets.declare.target import Copy, NativeClass, Target
from zoo.models.cost import on_meta
from zoo.models.settings import ModelSettings
from zoo.runs.tensors import finite, wrong_shapes

ROUNDED = 4e-3  # of sines and cosines in half precision
OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}  # of norms, in the first published checkpoints


@dataclass
class CheckpointTensors:
    """The tensors of a folder under the names that their class has today.

    Args:
        stored: name -> where it lies.
        dropped: names of what the target's classes do not have.
    """

    stored: dict[str, TensorInfo] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)


def every_rename(target: Target) -> list[Rename]:
    return [*target.renames, *(rename for chosen in target.classes for rename in chosen.renames)]


def every_copy(target: Target) -> list[Copy]:
    return [*target.copies, *(copy for chosen in target.classes for copy in chosen.copies)]


def spoken_of(target: Target) -> re.Pattern[str]:
    """Whether a name is one that some class of the target has."""
    names = [rename.theirs for rename in every_rename(target)] + [copy.theirs for copy in every_copy(target)]
    patterns = {re.escape(name).replace(re.escape("{i}"), r"\d{1,6}") for name in [*names, *target.tables]}
    return re.compile("|".join(sorted(patterns)))


def name_tensors(stored: Mapping[str, TensorInfo], target: Target, place: str) -> CheckpointTensors:
    """Give every tensor the name it has today; leave out what is no weight.

    Raises:
        ValueError: one of the body's tensors is none that the target has, or two have one name.
    """
    known, found = spoken_of(target), CheckpointTensors()
    headless = not any(name.startswith(target.prefix) for name in stored)
    for old, tensor in stored.items():
        name = modern(old)
        if not known.fullmatch(name) and known.fullmatch(target.prefix + name):
            name = target.prefix + name
        if name in found.stored:
            raise ValueError(f"{place}: two tensors are {name}; one of them is called {old}")
        if known.fullmatch(name):
            found.stored[name] = tensor
        elif not f".{name}".endswith(tuple(f".{stray}" for stray in target.strays)):
            if headless or name.startswith(target.prefix):
                raise ValueError(f"{place}: the tensor {old} is none of {target.family}")
            found.dropped.append(old)
    return found


def modern(name: str) -> str:
    """A name as it is written today."""
    stem, dot, last = name.rpartition(".")
    return stem + OLD_NAMES.get(dot + last, dot + last)


def active(renames: Sequence[Rename], flat: FlatSettings) -> list[Rename]:
    """The renames of the settings that a model has, as far as they are known; layers not repeated."""
    return [r for r in renames if r.when is None or flat.get(r.when[0], (r.when[1],)) == (r.when[1],)]


def choose_class(target: Target, named: str | None, names: Collection[str]) -> NativeClass:
    """The first class with the heads of the named one all of whose own tensors are there, else the named one.

    So a folder that says `BertForMaskedLM` and holds a pooler and the head of next sentences keeps them.
    """
    declared = next((chosen for chosen in target.classes if chosen.name == named), None)
    fitting = [c for c in target.classes if declared is None or set(declared.heads) <= set(c.heads)]
    whole = [c for c in fitting if all(r.theirs in names for r in c.renames if r.when is None)]
    return next(iter([*whole, *([declared] if declared else fitting)]))


def settle_copies(
    found: CheckpointTensors, flat: FlatSettings, target: Target, chosen: NativeClass, place: str
) -> None:
    """Take tied tensors that are there twice once; where two differ, `flat` says that they are not tied.

    Raises:
        ValueError: they differ, and our model ties them always.
    """
    real = {rename.theirs for rename in active((*target.renames, *chosen.renames), flat)}
    for copy in (*target.copies, *chosen.copies):
        if copy.theirs not in found.stored or copy.theirs in real:
            continue
        mine = found.stored[copy.theirs]
        if copy.of not in found.stored or copy.rules:
            found.stored[copy.of] = mine
        elif not same_content(mine, found.stored[copy.of]):
            if copy.untied is None:
                raise ValueError(f"{place}: {copy.theirs} is not {copy.of}, which {target.family} has it tied to here")
            flat[copy.untied] = (False,)
            continue
        del found.stored[copy.theirs]


def same_content(one: TensorInfo, other: TensorInfo) -> bool:
    """Whether two tensors have the same numbers."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    both = load({"one": one}), load({"other": other})
    return torch.equal(both[0]["one"], both[1]["other"])


def settle_presence(found: CheckpointTensors, flat: FlatSettings, target: Target, chosen: NativeClass) -> None:
    """Settings that no key speaks of and that a tensor's presence shows."""
    for rename in (*target.renames, *chosen.renames):
        if rename.when is not None and rename.when[0] not in flat and isinstance(rename.when[1], bool):
            there = rename.theirs in found.stored
            flat[rename.when[0]] = (rename.when[1] if there else not rename.when[1],)


@dataclass(frozen=True)
class ReadWeights:
    """Our tensors.

    Args:
        tensors: by our names. missing: names of heads' tensors that the folder lacks.
        dropped: names of theirs that the model has no place for.
    """

    tensors: Tensors
    missing: list[str]
    dropped: list[str]


def read_tensors(
    found: CheckpointTensors, settings: ModelSettings, target: Target, chosen: NativeClass, place: str
) -> ReadWeights:
    """Our tensors from theirs.

    Raises:
        ValueError: a tensor of the body is missing, or one has another shape than config.json says.
    """
    flat, expected = flatten(settings), on_meta(settings).state_dict()
    body, head = (
        list(expand(renames, flat, lambda rename: rename.ours[0] in expected))
        for renames in (target.renames, chosen.renames)
    )
    head = [rename for rename in head if rename.ours[0] in expected]
    lacking = [rename.theirs for rename in body if rename.theirs not in found.stored]
    if lacking:
        more = f" and {len(lacking) - SHOWN} more" if len(lacking) > SHOWN else ""
        raise ValueError(f"{place}: these tensors are missing: {', '.join(lacking[:SHOWN])}{more}")
    table = [rename for rename in (*body, *head) if rename.theirs in found.stored]
    extra = found.stored.keys() - {rename.theirs for rename in table} - set(target.tables)
    beyond = sorted(name for name in extra if layer_of_body(name, target))
    if beyond:
        raise ValueError(f"{place}: the tensor {beyond[0]} belongs to no layer of a model of these sizes")
    check_tables(found, flat, target, place)
    tensors = take_back(table, found, place)
    wrong = wrong_shapes(expected, tensors)
    if wrong:
        raise ValueError(f"{place}: the tensors are not of the sizes that config.json says: {'; '.join(wrong[:SHOWN])}")
    missing = [name for rename in head if rename.theirs not in found.stored for name in rename.ours]
    return ReadWeights(tensors, missing, sorted([*found.dropped, *extra]))


def check_tables(found: CheckpointTensors, flat: FlatSettings, target: Target, place: str) -> None:
    """Compare what follows from the settings with what the folder has instead, if it has it.

    Raises:
        ValueError: they are not the same, so the model would be another one.
    """
    for name in sorted(found.stored.keys() & target.tables.keys()):
        stored, make = found.stored[name], target.tables[name]
        with torch.device("meta"):  # what the settings claim may be far larger than what is there
            alike = stored.shape == make(flat).shape
        if not alike or not torch.allclose(load({name: stored})[name], make(flat).float(), rtol=0, atol=ROUNDED):
            raise ValueError(f"{place}: {name} is not the table that {target.family} computes, and zoo has no other")


def layer_of_body(name: str, target: Target) -> bool:
    """Whether a name is a repeated tensor of the target's body."""
    repeated = [r.theirs for r in target.renames if "{i}" in r.theirs]
    return any(re.fullmatch(re.escape(n).replace(re.escape("{i}"), r"\d+"), name) for n in repeated)


def take_back(table: Sequence[Rename], found: CheckpointTensors, place: str) -> Tensors:
    """Our tensors; only one of theirs is held at a time.

    Raises:
        ValueError: a tensor has a shape that cannot be or holds a NaN, or two of theirs are one of ours and differ.
    """
    ours: Tensors = {}
    source: dict[str, str] = {}
    for rename in table:
        theirs = load({rename.theirs: found.stored[rename.theirs]})
        finite(theirs, place)
        try:
            parts = rename.back(theirs[rename.theirs])
        except (RuntimeError, ValueError, IndexError):
            shape = "x".join(map(str, theirs[rename.theirs].shape)) or "a single number"
            raise ValueError(f"{place}: {rename.theirs} cannot be {shape}") from None
        for name, tensor in parts.items():
            if name in ours and not torch.equal(ours[name], tensor):
                raise ValueError(
                    f"{place}: {source[name]} and {rename.theirs} differ; zoo has one tensor for both, {name}"
                )
            ours[name], source[name] = tensor.clone(), rename.theirs
    return ours
