"""Read the tensors of an untrusted folder under zoo's names: rename tables run backwards."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import torch

from zoo.hub.sources.headers import TensorInfo, load_tensor
from zoo.hub.targets.declare.flat_settings import FlatSettings, flatten
from zoo.hub.targets.declare.renaming import Rename, Tensors, expand
from zoo.hub.targets.declare.target import Copy, NativeClass, Target
from zoo.models.cost import on_meta
from zoo.models.kinds.part import PARTS
from zoo.models.settings import ModelSettings
from zoo.runs.tensors import part_of, require_finite, shape, wrong_shapes
from zoo.wording import first_few

TABLE_TOLERANCE = 4e-3  # rounding of sines and cosines in half precision
OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}  # of norms, in the first published checkpoints
Stored = dict[str, TensorInfo]  # by the current name of a tensor in its class


def name_pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Match any of these names; `{i}` in them stands for a layer index."""
    return re.compile("|".join({re.escape(name).replace(re.escape("{i}"), r"\d{1,6}") for name in names}))


def name_tensors(stored: Mapping[str, TensorInfo], target: Target, place: str) -> tuple[Stored, list[str]]:
    """The tensors by their current names, and the names of tensors that no class of the target has.

    Raises:
        ValueError: a tensor of the body is unknown to the target, or two tensors map to one name.
    """
    families = [target.for_class(chosen) for chosen in target.classes]
    declared = [rename.theirs for family in families for rename in family.renames]
    declared += [copy.theirs for family in families for copy in family.copies]
    known, found, dropped = name_pattern([*declared, *target.tables]), Stored(), list[str]()
    # files of a class without heads omit the prefix, so an unknown tensor cannot be assumed to be a head's
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
    """Pick the first class with the named class's heads and with all its own tensors stored, else the named class.

    So a folder that names `BertForMaskedLM` but holds a pooler and a next-sentence head keeps them.
    """
    declared = next((chosen for chosen in target.classes if chosen.name == named), None)
    fitting = [c for c in target.classes if declared is None or set(declared.heads) <= set(c.heads)]
    whole = [c for c in fitting if all(r.theirs in names for r in c.renames if r.when is None)]
    return whole[0] if whole else declared or fitting[0]


def resolve_ties(stored: Stored, flat: FlatSettings, target: Target, place: str) -> None:
    """Keep one of two tied tensors if a file holds both; if they differ, set them as untied in `flat`.

    Raises:
        ValueError: they differ, and the target has no such head, or zoo always ties them.
    """

    def applies(declared: Rename | Copy) -> bool:
        path, value = declared.when or ("", None)
        return flat.get(path, (value,)) == (value,)

    real = {rename.theirs for rename in filter(applies, target.renames)}
    for copy in filter(applies, target.copies):
        if copy.theirs not in stored or copy.theirs in real:
            continue
        mine, other = stored[copy.theirs], stored.get(copy.of)
        if other is None or copy.rules:
            stored[copy.of] = mine
        elif mine.shape != other.shape or not torch.equal(load_tensor(mine), load_tensor(other)):
            if copy.untied is not None:
                flat[copy.untied] = (False,)
            if copy.untied is None or not fits_head(copy.untied, flat, target):
                raise ValueError(
                    f"{place}: {copy.theirs} differs from {copy.of}, to which {target.family} ties it here"
                )
            continue
        del stored[copy.theirs]


def fits_head(path: str, flat: FlatSettings, target: Target) -> bool:
    """Return whether the target allows the settings in `flat` of the head that the setting `path` belongs to."""
    head = path.rpartition(".")[0]
    demands = [demand for demand in target.requirements if demand.path in flat and demand.path.startswith(f"{head}.")]
    return not any(demand.obstacle(flat, target.family) for demand in demands)


def infer_settings(stored: Stored, flat: FlatSettings, target: Target) -> None:
    """Add settings that no key gives, from the presence of tensors."""
    for rename in target.renames:
        if rename.when is not None and rename.when[0] not in flat and isinstance(rename.when[1], bool):
            flat[rename.when[0]] = (rename.when[1] == (rename.theirs in stored),)


def read_tensors(
    stored: Stored, settings: ModelSettings, target: Target, place: str
) -> tuple[Tensors, list[str], list[str]]:
    """zoo's tensors, the names of head tensors that the folder lacks, and its tensors that the model does not have.

    Raises:
        ValueError: a tensor of the body is missing, belongs to no layer, or has another shape than config.json says.
    """
    flat, expected = flatten(settings), on_meta(settings).state_dict()
    table = [*expand(target.renames, flat, expected)]
    absent = [rename for rename in table if rename.theirs not in stored]
    lacking = [rename.theirs for rename in absent if part_of(rename.ours[0]) in PARTS]
    if lacking:
        raise ValueError(f"{place}: these tensors are missing: {first_few(lacking)}")
    extra = sorted(stored.keys() - {rename.theirs for rename in table} - set(target.tables))
    repeated = name_pattern(rename.theirs for rename in target.renames if "{i}" in rename.theirs)
    beyond = [name for name in extra if repeated.fullmatch(name)]
    if beyond:
        raise ValueError(f"{place}: a model of these sizes has no layer for the tensor {beyond[0]}")
    check_tables(stored, flat, target, place)
    tensors = convert([rename for rename in table if rename.theirs in stored], stored, place)
    wrong = wrong_shapes(expected, tensors)
    if wrong:
        raise ValueError(f"{place}: the tensors do not have the sizes of config.json: {first_few(wrong, '; ')}")
    return tensors, [name for rename in absent for name in rename.ours], extra


def check_tables(stored: Stored, flat: FlatSettings, target: Target, place: str) -> None:
    """Compare tensors that follow from the settings, such as sinusoids, with those in the folder, if there are any.

    Raises:
        ValueError: they differ, so it would be another model.
    """
    for name in sorted(stored.keys() & target.tables.keys()):
        make = target.tables[name]
        with torch.device("meta"):  # compare shapes first: the settings may claim a huge table
            alike = stored[name].shape == make(flat).shape
        if not alike or not torch.allclose(load_tensor(stored[name]), make(flat).float(), rtol=0, atol=TABLE_TOLERANCE):
            raise ValueError(
                f"{place}: {name} is not the table that {target.family} computes, the only one that zoo has"
            )


def convert(table: Sequence[Rename], stored: Stored, place: str) -> Tensors:
    """Convert the folder's tensors to zoo's; only one of them is held in memory at a time.

    Raises:
        ValueError: a tensor has an impossible shape or is not finite, or two tensors that zoo has only once differ.
    """
    ours: Tensors = {}
    source: dict[str, str] = {}
    for rename in table:
        theirs = load_tensor(stored[rename.theirs])
        require_finite({rename.theirs: theirs}, place)
        try:
            parts = rename.to_zoo(theirs)
        except (RuntimeError, ValueError, IndexError):
            raise ValueError(f"{place}: {rename.theirs} cannot have shape {shape(theirs)}") from None
        for name, tensor in parts.items():
            if name in ours and not torch.equal(ours[name], tensor):
                both = f"{source[name]} and {rename.theirs}"
                raise ValueError(f"{place}: {both} differ; zoo has one tensor for both, {name}")
            # `contiguous` in `to_zoo` returns a view if nothing was moved, which would keep the whole tensor alive
            ours[name], source[name] = tensor.clone(), rename.theirs
    return ours
