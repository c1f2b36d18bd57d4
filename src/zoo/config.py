"""Strict YAML to frozen dataclasses and back: one `base:`, `--set a.b=c`, and nothing that is silently ignored."""

import copy
import dataclasses
import functools
import os
import re
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml

from zoo.annotations import PerLayer, members
from zoo.registry import Choice, Slot, check, check_cycled, nearest, plain, refuse_unknown

C = TypeVar("C")
Tree = dict[str, Any]
MAX_BYTES = 1_000_000
VARIANT_KEYS = ("name", "kind")
NEVER_MERGED = ("labels",)  # keys whose value always replaces the one below: `several` is not a variant with options
PACKAGE = Path(__file__).parent
WHAT = {"configs": "model", "tasks": "task"}  # by the folder of shipped files


class StrictLoader(yaml.SafeLoader):
    """YAML that holds data only: no aliases, no tags, no repeated keys.

    Plain words mean what YAML 1.2 says, and `1e-6` is a number: `yes`, `on`, `12:30`, `010` and dates are texts.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(f"line {line}: aliases (*name) are not allowed")
        if getattr(event, "tag", None) is not None:
            raise ValueError(f"line {line}: tags (!name) are not allowed, got '{event.tag}'")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if type(key) not in (str, int):
                raise ValueError(f"line {line}: a key must be a text, got {key!r}")
            if key in seen:
                raise ValueError(f"line {line}: key '{key}' is written twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


class StrictDumper(yaml.SafeDumper):
    """YAML that StrictLoader reads back as the same values."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        escaped = not text.isprintable()  # a break inside plain or single quotes is folded away
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if escaped else None)


EXPONENT = r"[-+]?(?:[0-9][0-9_]*\.?|[0-9][0-9_]*\.[0-9_]+|\.[0-9][0-9_]*)[eE][-+]?[0-9]+"
FLOAT = rf"{EXPONENT}|[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)"
for kind, pattern, first in (
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", "true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F]+)", list("-+0123456789")),
    ("float", FLOAT, list("-+.0123456789")),
):
    StrictLoader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"^(?:{pattern})$"), first)
StrictDumper.add_representer(str, StrictDumper.represent_text)
# beside YAML 1.1's rules, so that what either would misread is written in quotes
StrictDumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"^(?:{FLOAT})$"), list("-+.0123456789"))
load = functools.lru_cache(maxsize=256)(functools.partial(yaml.load, Loader=StrictLoader))


def parse_yaml(text: str, place: str) -> Any:
    """Read one YAML document that holds data only.

    Raises:
        ValueError: it is not YAML, repeats a key, or uses tags or aliases.
    """
    try:
        return copy.deepcopy(load(text))  # which takes a fortieth of the time
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}:" if mark else ""
        problem = getattr(error, "problem", None) or error
        raise ValueError(f"{place}:{line} {' '.join(str(problem).split())}") from None
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    except RecursionError:
        raise ValueError(f"{place}: nested too deeply") from None


def read_yaml(path: Path) -> Tree:
    """Read a YAML file that holds one map.

    Raises:
        ValueError: not a readable file, not UTF-8, too large, or not a map.
    """
    if not os.path.isfile(path):
        raise ValueError(f"{path}: {'not a file' if os.path.exists(path) else 'no such file'}")
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path}: larger than {MAX_BYTES} bytes, which no config is")
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    tree = parse_yaml(text, str(path))
    if not isinstance(tree, dict):
        got = "nothing" if tree is None else f"a {type(tree).__name__}"
        raise ValueError(f"{path}: expected a map of keys to values, got {got}")
    return tree


def folder(kind: str) -> Path:
    """The folder of the YAML files that come with zoo: `configs` or `tasks`, in the wheel or beside `src`."""
    inside = PACKAGE / kind
    return inside if inside.is_dir() else PACKAGE.parents[1] / kind


def names(kind: str) -> list[str]:
    """Names of the shipped files of a kind, sorted."""
    return sorted(path.stem for path in folder(kind).glob("*.yaml"))


def find(name: str, kind: str) -> Path:
    """The YAML file a user means: a path to one, or a shipped name.

    Raises:
        ValueError: neither; with the nearest shipped name.
    """
    is_path = "/" in name or name.endswith((".yaml", ".yml"))
    shipped, path = folder(kind) / f"{name}.yaml", Path(os.path.expanduser(name))
    for place in [path] if is_path else [shipped, path]:  # a file `gpt2` beside the user must not hide the model
        if os.path.isfile(place):
            return place
    known = names(kind)
    if is_path:
        problem = "not a file" if os.path.exists(path) else "no such file"
        raise ValueError(f"{name}: {problem}{nearest(path.stem, known)}")
    unknown = f"unknown {WHAT[kind]} '{name}'{nearest(name, known)}"
    raise ValueError(f"{unknown}; known: {', '.join(known)}; or give a path to a .yaml file")


class Layer(NamedTuple):
    """A map of settings and where it stands, such as `configs/gpt2.yaml`."""

    place: str
    tree: Tree


def read_layers(name: str, kind: str) -> list[Layer]:
    """The file that a name or a path means, above the ones that its `base:` leads to, the lowest first.

    Raises:
        ValueError: as `find` and `read_yaml`, or the files name each other.
    """
    path, chain, layers = find(name, kind), list[Path](), list[Layer]()
    while True:
        if path.resolve() in chain:
            raise ValueError(f"{path}: base: the files {', '.join(p.name for p in chain)} name each other")
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
    """The file that a name or a path means, laid over the ones that its `base:` leads to."""
    return functools.reduce(merge, (layer.tree for layer in read_layers(name, kind)), {})


def merge(below: Any, above: Any) -> Any:
    """Lay one value over another: maps key by key, anything else replaces.

    A name and `{name: …}` are the same thing, and where `name` or `kind` changes, the old variant's options go. The
    keys in `NEVER_MERGED` are never merged.
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
    """Split `a.b=c` into its path and its value, read as YAML; nothing is set by `a.b=null`.

    Raises:
        ValueError: not of that form.
    """
    key, equals, written = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    value = parse_yaml(written, f"--set {key}")
    silent = value is None and written.strip().lower() not in ("null", "~")  # nothing, or only a comment
    if not equals or not all(path) or silent:
        raise ValueError(f"--set {text}: expected key=value, such as training.steps=1000")
    return path, value


def nest(path: Iterable[str], value: Any) -> Any:
    """A value under a path of keys: ('a', 'b'), 1 -> {'a': {'b': 1}}."""
    for key in reversed(tuple(path)):
        value = {key: value}
    return value


def as_tree(pairs: Iterable[tuple[Iterable[str], Any]]) -> Tree:
    """Values with their paths as one map, each laid over those before it."""
    return functools.reduce(merge, (nest(path, value) for path, value in pairs), {})


def build(cls: type[C], tree: Any, place: str) -> C:
    """Build a frozen dataclass from a map, strictly.

    A field annotated `Annotated[…, slot]` takes a choice of that slot, one whose type is a dataclass a map of its own,
    and one of a union with PerLayer a value or a list that is cycled over the layers.

    Raises:
        ValueError: an unknown key, a missing key, a wrong type; the message names the place.
    """
    if not isinstance(tree, Mapping):
        raise ValueError(f"{place}: expected a map, got {tree!r}")
    hints = typing.get_type_hints(cls, include_extras=True)
    known = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in tree:
        refuse_unknown(str(key), known, "key", place)
    values = {}
    for name, field in known.items():
        if name in tree:
            values[name] = read_field(tree[name], field, hints[name], f"{place}.{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ValueError(f"{place}: the key '{name}' is missing")
    try:
        return cls(**values)
    except ValueError as error:  # from __post_init__, which knows its place only where the class has a single one
        known_place = str(error).startswith((f"{place}.", f"{place}:"))
        raise ValueError(str(error) if known_place else f"{place}: {error}") from None


def read_field(value: Any, field: "dataclasses.Field[Any]", annotation: Any, place: str) -> Any:
    """One field's value, checked against its annotation."""
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
    """The slot that an annotation `Annotated[…, slot]` names, also inside a union with None."""
    marked = (typing.get_args(m)[1] for m in members(annotation) if typing.get_origin(m) is typing.Annotated)
    return next((mark for mark in marked if isinstance(mark, Slot)), None)


def dump(settings: Any) -> Tree:
    """A dataclass as the map that `build` reads back."""
    out: Tree = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        nested = dataclasses.is_dataclass(value) and not isinstance(value, Choice | PerLayer)
        out[field.name] = dump(value) if nested else plain(value)
    return out


def to_yaml(tree: Mapping[str, Any]) -> str:
    """A map as YAML text in the order of its keys."""
    return yaml.dump(dict(tree), Dumper=StrictDumper, sort_keys=False, allow_unicode=True, width=120)
