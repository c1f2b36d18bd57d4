"""Strict YAML to frozen dataclasses and back: one `base:`, `--set a.b=c`, and nothing that is silently ignored."""

import dataclasses
import re
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from zoo.registry import Choice, Slot, check, check_cycled, nearest, plain, refuse_unknown

C = TypeVar("C")
Tree = dict[str, Any]
MAX_BYTES = 1_000_000
PACKAGE = Path(__file__).parent


class StrictLoader(yaml.SafeLoader):
    """YAML's safe loader without aliases and repeated keys; `1e-6` is a number."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise ValueError(f"line {mark.line + 1}: aliases (*name) are not allowed")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int):
                raise ValueError(f"line {key_node.start_mark.line + 1}: a key must be a text")
            if key in seen:
                raise ValueError(f"line {key_node.start_mark.line + 1}: key '{key}' is written twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+0123456789."),
)


def parse_yaml(text: str, place: str) -> Any:
    """Read one YAML document that holds data only.

    Raises:
        ValueError: it is not YAML, repeats a key, or uses tags or aliases.
    """
    try:
        return yaml.load(text, StrictLoader)  # noqa: S506 - StrictLoader is a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}:" if mark else ""
        raise ValueError(f"{place}:{line} {getattr(error, 'problem', None) or error}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place}: {error}") from None


def read_yaml(path: Path) -> Tree:
    """Read a YAML file that holds one map.

    Raises:
        ValueError: not a readable file, not UTF-8, too large, or not a map.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path}: larger than {MAX_BYTES} bytes, which no config is")
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    tree = parse_yaml(text, str(path))
    if not isinstance(tree, dict):
        raise ValueError(f"{path}: expected a map of keys to values")
    return tree


def folder(kind: str) -> Path:
    """The folder of the YAML files that come with zoo: `configs` or `tasks`, in the wheel or beside `src`."""
    inside = PACKAGE / kind
    return inside if inside.is_dir() else PACKAGE.parents[1] / kind


def names(kind: str) -> list[str]:
    """Names of the shipped files of a kind, sorted."""
    return sorted(path.stem for path in folder(kind).glob("*.yaml"))


def find(name: str, kind: str, what: str) -> Path:
    """The YAML file a user means: a path to one, or a shipped name.

    Raises:
        ValueError: neither; with the nearest shipped name.
    """
    shipped = folder(kind) / f"{name}.yaml"
    if "/" not in name and not name.endswith((".yaml", ".yml")) and shipped.is_file():
        return shipped
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if "/" in name or name.endswith((".yaml", ".yml")):
        raise ValueError(f"{name}: no such file")
    known = names(kind)
    raise ValueError(f"unknown {what} '{name}'{nearest(name, known)}; known: {', '.join(known)}; or give a path to a .yaml file")


def about(path: Path) -> str:
    """What a file is for: its first comment line, without the name it may begin with."""
    with path.open(encoding="utf-8") as lines:
        first = lines.readline()
    text = first.lstrip("# ").strip() if first.startswith("#") else ""
    return re.sub(r"^\S+\.yaml:\s*", "", text)


def read_with_base(path: Path, kind: str, what: str) -> Tree:
    """Read a file and lay it over the one that its `base:` names (which may have a base too)."""
    chain: list[Path] = []
    layers: list[Tree] = []
    while path not in chain:
        chain.append(path)
        tree = read_yaml(path)
        base = tree.pop("base", None)
        layers.append(tree)
        if base is None:
            merged: Tree = {}
            for layer in reversed(layers):
                merged = merge(merged, layer)
            return merged
        if not isinstance(base, str):
            raise ValueError(f"{path}: base: expected a name or a path, got {base!r}")
        beside = path.parent / base
        path = beside if beside.is_file() else find(base, kind, what)
    raise ValueError(f"{path}: base: the files {', '.join(p.name for p in chain)} name each other")


def merge(below: Any, above: Any) -> Any:
    """Lay one value over another: maps key by key, anything else replaces.

    A name and `{name: …}` are the same thing, and where `name` or `kind` changes, the old variant's options go.
    """
    if not isinstance(above, Mapping):
        return above
    if isinstance(below, str):
        below = {"name": below}
    if not isinstance(below, Mapping) or any(k in above and k in below and above[k] != below[k] for k in ("name", "kind")):
        below = {}
    merged = dict(below)
    for key, value in above.items():
        merged[key] = merge(below.get(key), value)
    return merged


def parse_set(text: str) -> tuple[tuple[str, ...], Any]:
    """Split `a.b=c` into its path and its value, read as YAML.

    Raises:
        ValueError: not of that form.
    """
    key, equals, value = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        raise ValueError(f"--set {text}: expected key=value, such as training.steps=1000")
    return path, parse_yaml(value, f"--set {key}")


def nest(path: Iterable[str], value: Any) -> Any:
    """A value under a path of keys: ('a', 'b'), 1 -> {'a': {'b': 1}}."""
    for key in reversed(tuple(path)):
        value = {key: value}
    return value


def build(cls: type[C], tree: Any, place: str) -> C:
    """Build a frozen dataclass from a map, strictly.

    A field annotated `Annotated[…, slot]` takes a choice of that slot, one whose type is a dataclass a map of its own,
    and one with `metadata={"per_layer": True}` a value or a list that is cycled over the layers.

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
    return cls(**values)


def read_field(value: Any, field: "dataclasses.Field[Any]", annotation: Any, place: str) -> Any:
    """One field's value, checked against its annotation."""
    slot = slot_of(annotation)
    per_layer = field.metadata.get("per_layer", False)
    if slot is not None and value is not None and not isinstance(value, list):
        default = field.default.name if isinstance(field.default, Choice) else None
        return slot.parse(value, place, default)
    members = typing.get_args(annotation) or (annotation,)
    nested = next((m for m in members if dataclasses.is_dataclass(m)), None)
    if nested is not None and isinstance(value, Mapping):
        return build(nested, value, place)  # type: ignore[arg-type]
    return check_cycled(value, annotation, place) if per_layer else check(value, annotation, place)


def slot_of(annotation: Any) -> Slot[Any] | None:
    """The slot that an annotation `Annotated[…, slot]` names, also inside a union with None."""
    if typing.get_origin(annotation) is typing.Annotated:
        marked = typing.get_args(annotation)[1]
        return marked if isinstance(marked, Slot) else None
    return next((s for a in typing.get_args(annotation) if (s := slot_of(a)) is not None), None)


def dump(settings: Any) -> Tree:
    """A dataclass as the map that `build` reads back."""
    out: Tree = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        out[field.name] = dump(value) if dataclasses.is_dataclass(value) and not isinstance(value, Choice) else plain(value)
    return out


def to_yaml(tree: Mapping[str, Any]) -> str:
    """A map as YAML text in the order of its keys."""
    return yaml.safe_dump(dict(tree), sort_keys=False, allow_unicode=True, width=120)
