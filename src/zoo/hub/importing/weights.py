"""Tensors of a stranger's folder under our names: rename tables run backwards."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import torch

from zoo.hub.sources.headers import TensorInfo, load
from zoo.hub.targets.declare.flat_settings import FlatSettings, flatten
from zoo.hub.targets.declare.renaming import Rename, Tensors, expand
from zoo.hub.targets.declare.target import NativeClass, Target
from zoo.models.cost import on_meta
from zoo.models.kinds.part import PARTS
from zoo.models.settings import ModelSettings
from zoo.runs.tensors import finite, part_of, shape, wrong_shapes
from zoo.wording import first_few

ROUNDED = 4e-3  # of sines and cosines in half precision
OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}  # of norms, in the first published checkpoints
Stored = dict[str, TensorInfo]  # by the name that a tensor's class has for it today


def pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Any of these names, `{i}` in them for the number of a layer."""
    return re.compile("|".join({re.escape(name).replace(re.escape("{i}"), r"\d{1,6}") for name in names}))


def name_tensors(stored: Mapping[str, TensorInfo], target: Target, place: str) -> tuple[Stored, list[str]]:
    """The tensors by the names they have today, and the names of those that the target's classes do not have.

    Raises:
        ValueError: one of the body's tensors is none that the target has, or two have one name.
    """
    families = [target.narrowed(chosen) for chosen in target.classes]
    declared = [rename.theirs for family in families for rename in family.renames]
    declared += [copy.theirs for family in families for copy in family.copies]
    known, found, dropped = pattern([*declared, *target.tables]), Stored(), list[str]()
    # files of a class without heads leave the prefix out, so nothing in them can be told from a head's tensor
    headless = not any(name.startswith(target.prefix) for name in stored)
    for old, tensor in stored.items():
        stem, dot, last = old.rpartition(".")
        name = stem + OLD_NAMES.get(dot + last, dot + last)
        if not known.fullmatch(name) and known.fullmatch(target.prefix + name):
            name = target.prefix + name
        if name in found:
            raise ValueError(f"{place}: two tensors map to {name}; one of them is {old}")
        if known.fullmatch(name):
            found[name] = tensor
        elif not f".{name}".endswith(tuple(f".{stray}" for stray in target.strays)):
            if headless or name.startswith(target.prefix):
                raise ValueError(f"{place}: {target.family} has no tensor {old}")
            dropped.append(old)
    return found, dropped


def choose_class(target: Target, named: str | None, names: Collection[str]) -> NativeClass:
    """The first class with the heads of the named one all of whose own tensors are there, else the named one.

    So a folder that says `BertForMaskedLM` and holds a pooler and the head of next sentences keeps them.
    """
    declared = next((chosen for chosen in target.classes if chosen.name == named), None)
    fitting = [c for c in target.classes if declared is None or set(declared.heads) <= set(c.heads)]
    whole = [c for c in fitting if all(r.theirs in names for r in c.renames if r.when is None)]
    return whole[0] if whole else declared or fitting[0]


def settle_copies(stored: Stored, flat: FlatSettings, target: Target, place: str) -> None:
    """Keep one of two tied tensors that a file holds both of; where they differ, say in `flat` that they are not tied.

    Raises:
        ValueError: they differ, and the target has no such head, or our model ties them always.
    """
    real = {r.theirs for r in target.renames if r.when is None or flat.get(r.when[0], (r.when[1],)) == (r.when[1],)}
    for copy in target.copies:
        if copy.theirs not in stored or copy.theirs in real:
            continue
        mine, other = stored[copy.theirs], stored.get(copy.of)
        if other is None or copy.rules:
            stored[copy.of] = mine
        elif mine.shape != other.shape or mine.dtype != other.dtype or not torch.equal(load(mine), load(other)):
            if copy.untied is not None:
                flat[copy.untied] = (False,)
            if copy.untied is None or not fits_head(copy.untied, flat, target):
                raise ValueError(
                    f"{place}: {copy.theirs} differs from {copy.of}, to which {target.family} ties it here"
                )
            continue
        del stored[copy.theirs]


def fits_head(path: str, flat: FlatSettings, target: Target) -> bool:
    """Whether a target has such a head, as far as `flat` says what it is; `path` is one of the head's settings."""
    head = path.rpartition(".")[0]
    demands = [demand for demand in target.requirements if demand.path in flat and demand.path.startswith(f"{head}.")]
    return not any(demand.obstacle(flat, target.family) for demand in demands)


def settle_presence(stored: Stored, flat: FlatSettings, target: Target) -> None:
    """Add the settings that no key says: whether a tensor is there shows them."""
    for rename in target.renames:
        if rename.when is not None and rename.when[0] not in flat and isinstance(rename.when[1], bool):
            flat[rename.when[0]] = (rename.when[1] == (rename.theirs in stored),)


def read_tensors(
    stored: Stored, settings: ModelSettings, target: Target, place: str
) -> tuple[Tensors, list[str], list[str]]:
    """Our tensors, the names of our heads' tensors that the folder lacks, and those of theirs without a place.

    Raises:
        ValueError: a tensor of the body is missing, or one has another shape than config.json says.
    """
    flat, expected = flatten(settings), on_meta(settings).state_dict()
    table = [*expand(target.renames, flat, expected)]
    absent = [rename for rename in table if rename.theirs not in stored]
    lacking = [rename.theirs for rename in absent if part_of(rename.ours[0]) in PARTS]
    if lacking:
        raise ValueError(f"{place}: these tensors are missing: {first_few(lacking)}")
    extra = sorted(stored.keys() - {rename.theirs for rename in table} - set(target.tables))
    repeated = pattern(rename.theirs for rename in target.renames if "{i}" in rename.theirs)
    beyond = [name for name in extra if repeated.fullmatch(name)]
    if beyond:
        raise ValueError(f"{place}: a model of these sizes has no layer for the tensor {beyond[0]}")
    check_tables(stored, flat, target, place)
    tensors = take_back([rename for rename in table if rename.theirs in stored], stored, place)
    wrong = wrong_shapes(expected, tensors)
    if wrong:
        raise ValueError(f"{place}: the tensors do not have the sizes of config.json: {first_few(wrong, '; ')}")
    return tensors, [name for rename in absent for name in rename.ours], extra


def check_tables(stored: Stored, flat: FlatSettings, target: Target, place: str) -> None:
    """Compare what follows from the settings with what the folder has instead, if it has it.

    Raises:
        ValueError: they are not the same, so the model would be another one.
    """
    for name in sorted(stored.keys() & target.tables.keys()):
        make = target.tables[name]
        with torch.device("meta"):  # what the settings claim may be far larger than what is there
            alike = stored[name].shape == make(flat).shape
        if not alike or not torch.allclose(load(stored[name]), make(flat).float(), rtol=0, atol=ROUNDED):
            raise ValueError(
                f"{place}: {name} is not the table that {target.family} computes, the only one that zoo has"
            )


def take_back(table: Sequence[Rename], stored: Stored, place: str) -> Tensors:
    """Our tensors; only one of theirs is held at a time.

    Raises:
        ValueError: a tensor has a shape that cannot be or holds a NaN, or two of theirs are one of ours and differ.
    """
    ours: Tensors = {}
    source: dict[str, str] = {}
    for rename in table:
        theirs = load(stored[rename.theirs])
        finite({rename.theirs: theirs}, place)
        try:
            parts = rename.back(theirs)
        except (RuntimeError, ValueError, IndexError):
            raise ValueError(f"{place}: {rename.theirs} cannot have shape {shape(theirs)}") from None
        for name, tensor in parts.items():
            if name in ours and not torch.equal(ours[name], tensor):
                both = f"{source[name]} and {rename.theirs}"
                raise ValueError(f"{place}: {both} differ; zoo has one tensor for both, {name}")
            # `contiguous` in `back` gives a view of theirs where nothing was moved, and would keep all of it
            ours[name], source[name] = tensor.clone(), rename.theirs
    return ours
