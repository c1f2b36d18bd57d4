"""Maps of settings to frozen dataclasses and back: one `base:`, `--set a.b=c`, and nothing that is silently ignored."""

import dataclasses
import errno
import functools
import os
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from zoo.annotations import PerLayer, members
from zoo.disk import is_file
from zoo.registry import Choice, Slot, check, check_cycled, plain
from zoo.strict_yaml import Tree, parse_yaml, read_yaml
from zoo.wording import nearest, refuse_unknown

C = TypeVar("C")
VARIANT_KEYS = ("name", "kind")
NEVER_MERGED = ("labels",)  # keys whose value always replaces the one below: `several` is not a variant with options
PACKAGE = Path(__file__).parent
WHAT = {"configs": "model", "tasks": "task"}  # folder of shipped files -> what a file there is called in messages


def folder(kind: str) -> Path:
    """The folder of the YAML files that come with zoo: `configs` or `tasks`, in the wheel or beside `src`."""
    inside = PACKAGE / kind
    return inside if inside.is_dir() else PACKAGE.parents[1] / kind


def names(kind: str) -> list[str]:
    """The names of the shipped files of a kind (`configs` or `tasks`), sorted."""
    return sorted(path.stem for path in folder(kind).glob("*.yaml"))


def find(name: str, kind: str) -> Path:
    """The YAML file for a path or a shipped name.

    Raises:
        ValueError: no such file; the message names the nearest shipped name. Or it cannot be reached.
    """
    is_path = "/" in name or name.endswith((".yaml", ".yml"))
    shipped, path = folder(kind) / f"{name}.yaml", Path(os.path.expanduser(name))
    for place in [path] if is_path else [shipped, path]:  # a local file `gpt2` must not hide the model
        if is_yaml_file(place):
            return place
    known = names(kind)
    if is_path:
        problem = "not a file" if os.path.exists(path) else "no such file"
        raise ValueError(f"{name}: {problem}{nearest(path.stem, known)}")
    other = next((what for key, what in WHAT.items() if key != kind and name in names(key)), None)
    if other:  # words in the wrong order
        raise ValueError(f"{name}: a {other}, where a {WHAT[kind]} is expected")
    unknown = f"unknown {WHAT[kind]} '{name}'{nearest(name, known)}"
    raise ValueError(f"{unknown}; known: {', '.join(known)}; or give a path to a .yaml file")


class Layer(NamedTuple):
    """A map of settings and where it comes from, such as `configs/gpt2.yaml`."""

    place: str
    tree: Tree


def is_yaml_file(path: Path) -> bool:
    """Whether there is a regular file.

    Raises:
        ValueError: the path leads through a folder that may not be entered.
    """
    try:
        return is_file(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # a text in place of a name
            return False
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None


def read_layers(name: str, kind: str) -> list[Layer]:
    """Read a file and its chain of `base:` files; the lowest base comes first, the file itself last.

    Raises:
        ValueError: as `find` and `read_yaml`, or the bases form a cycle.
    """
    path, chain, layers = find(name, kind), list[Path](), list[Layer]()
    while True:
        if path.resolve() in chain:
            raise ValueError(f"{path}: base: the files {', '.join(p.name for p in chain)} form a cycle")
        chain.append(path.resolve())
        tree = read_yaml(path)
        base = tree.pop("base", None)
        place = f"{kind}/{path.name}" if path.parent == folder(kind) else str(path)
        layers.insert(0, Layer(f"base {place}" if layers else place, tree))
        if base is None:
            return layers
        if not isinstance(base, str):
            raise ValueError(f"{path}: base: expected a name or a path, got {base!r}")
        beside = path.parent / base
        is_beside = os.path.isfile(beside) and base not in names(kind)  # as in `find`
        try:
            path = beside if is_beside else find(base, kind)
        except ValueError as error:
            raise ValueError(f"{path}: base: {error}") from None


def read_with_base(name: str, kind: str) -> Tree:
    """Read a file, merged over its chain of `base:` files."""
    return functools.reduce(merge, (layer.tree for layer in read_layers(name, kind)), {})


def merge(below: Any, above: Any) -> Any:
    """Merge two values: maps are merged key by key, any other value of `above` replaces the one below.

    A name equals `{name: …}`. If `name` or `kind` changes, the old variant's options are dropped. The keys in
    `NEVER_MERGED` are always replaced.
    """
    if isinstance(above, str) and isinstance(below, Mapping) and below.get("name") == above:
        return below
    if not isinstance(above, Mapping):
        return above
    if isinstance(below, str):
        below = {"name": below}
    if not isinstance(below, Mapping) or any(k in above and k in below and above[k] != below[k] for k in VARIANT_KEYS):
        below = {}
    laid = {key: value if key in NEVER_MERGED else merge(below.get(key), value) for key, value in above.items()}
    return {**below, **laid}


def parse_set(text: str) -> tuple[tuple[str, ...], Any]:
    """Split `a.b=c` into its path and its value, which is read as YAML; `a.b=null` sets None.

    Raises:
        ValueError: the text does not have this form.
    """
    key, equals, written = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    value = parse_yaml(written, f"--set {key}")
    silent = value is None and written.strip().lower() not in ("null", "~")  # empty, or only a comment
    if not equals or not all(path) or silent:
        raise ValueError(f"--set {text}: expected key=value, such as training.steps=1000")
    return path, value


def nest(path: Iterable[str], value: Any) -> Any:
    """A value under a path of keys: ('a', 'b'), 1 -> {'a': {'b': 1}}."""
    for key in reversed(tuple(path)):
        value = {key: value}
    return value


def as_tree(pairs: Iterable[tuple[Iterable[str], Any]]) -> Tree:
    """Build one map from (path, value) pairs; later pairs are merged over earlier ones."""
    return functools.reduce(merge, (nest(path, value) for path, value in pairs), {})


def build(cls: type[C], tree: Any, place: str) -> C:
    """Build a frozen dataclass from a map, strictly.

    A field annotated `Annotated[…, slot]` takes a choice of that slot. A field whose type is a dataclass takes a map.
    A field whose type is a union with PerLayer takes a value, or a list that is cycled over the layers.

    Raises:
        ValueError: an unknown key, a missing key, a wrong type; the message names the key with `place` in front.
    """
    if not isinstance(tree, Mapping):
        raise ValueError(f"{place}: expected a map, got {tree!r}")
    hints = typing.get_type_hints(cls, include_extras=True)
    known = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in tree:
        if str(key) not in known:
            refuse_unknown(str(key), known, "key", place, deeper=option_paths(cls, str(key)))
    values = {}
    for name, field in known.items():
        if name in tree:
            values[name] = read_field(tree[name], field, hints[name], f"{place}.{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ValueError(f"{place}: the key '{name}' is missing")
    try:
        return cls(**values)
    except ValueError as error:  # from __post_init__, which may not know the full key
        known_place = str(error).startswith((f"{place}.", f"{place}:"))
        raise ValueError(str(error) if known_place else f"{place}: {error}") from None


def read_field(value: Any, field: "dataclasses.Field[Any]", annotation: Any, place: str) -> Any:
    """Read one field's value, checked against its annotation."""
    slot = slot_of(annotation)
    default = field.default.name if isinstance(field.default, Choice) else None
    per_layer = PerLayer in members(annotation)
    if slot is not None and isinstance(value, Mapping):
        return slot.parse(value, place, default)
    if slot is not None and per_layer and isinstance(value, list):
        value = [{"name": default, **v} if default and isinstance(v, Mapping) else v for v in value]
    nested = next((member for member in members(annotation) if dataclasses.is_dataclass(member)), None)
    if nested is not None and isinstance(value, Mapping):
        return build(nested, value, place)  # type: ignore[arg-type]
    return check_cycled(value, annotation, place) if per_layer else check(value, annotation, place)


def slot_of(annotation: Any) -> Slot[Any] | None:
    """The slot in an annotation `Annotated[…, slot]`, also inside a union; None if there is none."""
    marked = (typing.get_args(m)[1] for m in members(annotation) if typing.get_origin(m) is typing.Annotated)
    return next((mark for mark in marked if isinstance(mark, Slot)), None)


def option_paths(cls: type, key: str) -> list[str]:
    """Where a key is an option of a part that a dataclass chooses: 'window' -> ['attention.window']."""
    slots = {name: slot_of(hint) for name, hint in typing.get_type_hints(cls, include_extras=True).items()}
    return [f"{name}.{key}" for name, slot in slots.items() if slot is not None and slot.with_option(key)]


def dump(settings: Any) -> Tree:
    """A dataclass as a map, which `build` reads back."""
    out: Tree = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        nested = dataclasses.is_dataclass(value) and not isinstance(value, Choice | PerLayer)
        out[field.name] = dump(value) if nested else plain(value)
    return out
