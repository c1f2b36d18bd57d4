"""Read a model's file strictly, let its stacks inherit the model's keys, and write it back."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from zoo import config
from zoo.models.embeddings import EmbeddingSettings
from zoo.models.heads.head import Head, has_classes, heads
from zoo.models.heads.pooler import PoolerSettings
from zoo.models.initialize import Initializer, initializers
from zoo.models.kinds.part import PARTS, PartChoice, ReportsUnused
from zoo.registry import Choice, plain
from zoo.strict_yaml import Tree
from zoo.wording import refuse_unknown

INHERITED = ("d_model", "vocab_size", "max_length", "dropout")
Sets = Iterable[tuple[tuple[str, ...], Any]]


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """A model as its file describes it.

    Args:
        vocab_size: number of token embeddings; 0 in a model that reads images and writes nothing.
        d_model: width of the states.
        max_length: the most positions of one document (tokens).
        dropout: fraction of sublayer outputs and embeddings dropped in training.
        heads: score the states; the first one's logits are the model's.
        pooler: how an encoder's heads that score documents read a document's summary.
        training: settings for pretraining it, read by the training layer.
    """

    vocab_size: int = 0
    d_model: int
    heads: tuple[Annotated[Choice[Head], heads], ...]
    initialize: Annotated[Choice[Initializer], initializers] = initializers.parse("normal")
    max_length: int = 512
    dropout: float = 0.1
    embeddings: EmbeddingSettings = EmbeddingSettings()
    pooler: PoolerSettings = PoolerSettings()
    encoder: PartChoice | None = None
    decoder: PartChoice | None = None
    training: Tree = field(default_factory=dict)

    @property
    def parts(self) -> dict[str, PartChoice]:
        """The parts that the model has, by side."""
        both = {"encoder": self.encoder, "decoder": self.decoder}
        return {side: part for side, part in both.items() if part is not None}


def load_settings(name: str, sets: Sets = ()) -> ModelSettings:
    """Read a model by its shipped name or a path, and apply `--set` pairs.

    Raises:
        ValueError: an unknown name, key or option, a wrong type, parts that do not combine.
    """
    return parse_settings(config.read_with_base(name, "configs"), sets, Path(name).stem)


def parse_settings(tree: Tree, sets: Sets = (), place: str = "model") -> ModelSettings:
    """Read a model's map and apply `--set` pairs.

    Args:
        place: where the map comes from, for error messages.

    Raises:
        ValueError: as `load_settings`.
    """
    tree = {**tree, "heads": head_map(tree.get("heads", []), f"{place}.heads")}
    paths = []
    for path, value in sets:
        paths.append(full_path(tree, path))
        tree = apply_set(tree, paths[-1], value)
    settings = build_settings(tree, place)
    refuse_unread(settings, paths)
    return settings


def refuse_unread(settings: ModelSettings, paths: Iterable[tuple[str, ...]]) -> None:
    """Check that each `--set` has an effect.

    Args:
        paths: the changed keys, each as a path from the top of the model's map.

    Raises:
        ValueError: nothing reads a key.
    """
    for side, *keys in paths:
        part = settings.parts.get(side)
        why = None
        if side == "pooler" and settings.decoder is not None:
            why = "a decoder's heads read its last position"
        elif keys and part is not None and isinstance(part.settings, ReportsUnused):
            reads_memory = side == "decoder" and settings.encoder is not None
            why = part.settings.unused_settings(reads_memory=reads_memory).get(keys[0])
        if why is not None:
            raise ValueError(f"--set {'.'.join((side, *keys))}: nothing reads it: {why}")


def head_map(value: Any, place: str) -> dict[str, Any]:
    """Return heads, written as a list or a map, as a map of name to options.

    Raises:
        ValueError: neither of them, an unknown head, or one that is named twice.
    """
    if isinstance(value, Mapping):
        for name, options in value.items():
            if options is not None and not isinstance(options, Mapping):
                raise ValueError(f"{place}.{name}: expected a map of options, got {options!r}")
        return {str(name): dict(options or {}) for name, options in value.items()}
    if not isinstance(value, list):
        raise ValueError(f"{place}: expected a list of heads, got {value!r}")
    choices = [heads.parse(head, f"{place}[{i}]") for i, head in enumerate(value)]
    names = [choice.name for choice in choices]
    if len(set(names)) < len(names):
        raise ValueError(f"{place}: a head is named twice: {', '.join(names)}")
    return {choice.name: plain(choice.options) for choice in choices}


def full_path(tree: Tree, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path of one `--set` from the top of a model's map: a key of the model, else of its only stack.

    Raises:
        ValueError: no stack has that key, or more than one has it.
    """
    known = [f.name for f in dataclasses.fields(ModelSettings)]
    if path[0] in known:
        return path
    keys = {side: stack_keys(tree, side) for side in PARTS if isinstance(tree.get(side), Mapping)}
    sides = [side for side, names in keys.items() if path[0] in names]
    written = ".".join(path)
    allowed = dict.fromkeys(known + [name for names in keys.values() for name in names])
    if path[0] not in allowed:
        classes: list[type] = [ModelSettings, *(stack_class(tree, side) for side in keys)]
        deeper = [option for cls in classes for option in config.option_paths(cls, path[0])]
        refuse_unknown(path[0], allowed, "key", f"--set {written}", deeper=deeper)
    if len(sides) > 1:
        raise ValueError(f"--set {written}: ambiguous; set {' or '.join(f'{side}.{written}' for side in sides)}")
    return (sides[0], *path)


def apply_set(tree: Tree, path: tuple[str, ...], value: Any) -> Tree:
    """Return the map with one `--set` applied; an inherited key also replaces the values that stacks and heads set.

    Args:
        path: from the top of the model's map.

    Raises:
        ValueError: the model has no such head or stack.
    """
    written = ".".join(path)
    if path == ("heads",):
        value = {name: tree["heads"].get(name, {}) | options for name, options in head_map(value, "heads").items()}
        return {**tree, "heads": value}
    if path[0] == "heads" and path[1] not in tree["heads"]:
        raise ValueError(f"--set {written}: the model has no head '{path[1]}'; it has: {', '.join(tree['heads'])}")
    if path[0] in PARTS and len(path) > 1 and not isinstance(tree.get(path[0]), Mapping):
        raise ValueError(f"--set {written}: the model has no {path[0]}")
    if len(path) == 1 and path[0] in INHERITED:
        places = (*PARTS, "heads")
        tree = {k: drop_inherited_key(v, path[0], value) if k in places else v for k, v in tree.items()}
    merged = config.merge(tree, config.nest(path, value))
    assert isinstance(merged, dict)
    return merged


def drop_inherited_key(tree: Any, key: str, value: Any, inherits: bool = True) -> Any:
    """Return a stack's or the heads' map without an inherited key, at any depth, so that it is inherited again.

    A feed-forward inherits nothing, so there the new value replaces the old one.
    """
    if isinstance(tree, list):
        return [drop_inherited_key(item, key, value, inherits) for item in tree]
    if not isinstance(tree, Mapping):
        return tree
    kept = {k: drop_inherited_key(v, key, value, k != "feed_forward") for k, v in tree.items() if k != key}
    return kept if inherits or key not in tree else {**kept, key: value}


def stack_class(tree: Tree, side: str) -> type[Any]:
    return PARTS[side][kind_of(side, tree[side], side)].Settings


def stack_keys(tree: Tree, side: str) -> list[str]:
    return [f.name for f in dataclasses.fields(stack_class(tree, side))]


def kind_of(side: str, part: Mapping[str, Any], place: str) -> str:
    """Return the kind of encoder or decoder that a part's map describes."""
    kind = str(part.get("kind", "transformer"))
    refuse_unknown(kind, PARTS[side].names(), side, f"{place}.kind")
    return kind


def build_settings(tree: Tree, place: str) -> ModelSettings:
    """Build the settings; stacks inherit the keys that they do not set from the model.

    Raises:
        ValueError: there is no head, no stack, or a wrong setting.
    """
    if not tree["heads"]:
        raise ValueError(f"{place}.heads: a model needs at least one head; allowed: {', '.join(heads.names())}")
    own = {key: value for key, value in tree.items() if key not in (*PARTS, "heads")}
    own["heads"] = parse_heads(head_map(tree["heads"], f"{place}.heads"), place)
    settings = config.build(ModelSettings, own, place)
    given = {key: getattr(settings, key) for key in INHERITED}
    parts = {side: parse_part(side, tree[side], given, place) for side in PARTS if tree.get(side) is not None}
    if not parts:
        raise ValueError(f"{place}: a model needs an encoder, a decoder or both")
    return dataclasses.replace(settings, encoder=parts.get("encoder"), decoder=parts.get("decoder"))


def parse_heads(written: Mapping[str, Tree], place: str) -> list[Choice[Head]]:
    return [heads.parse({**options, "name": name}, f"{place}.heads.{name}") for name, options in written.items()]


def parse_part(side: str, tree: Any, inherited: Tree, place: str) -> PartChoice:
    """Build one stack's settings.

    Raises:
        ValueError: it is not a map, or has a wrong kind or setting.
    """
    if not isinstance(tree, Mapping):
        raise ValueError(f"{place}.{side}: expected a map with 'kind', got {tree!r}")
    kind = kind_of(side, tree, f"{place}.{side}")
    cls = PARTS[side][kind].Settings
    keys = {f.name for f in dataclasses.fields(cls)}
    filled = {k: v for k, v in inherited.items() if k in keys} | {k: v for k, v in tree.items() if k != "kind"}
    return PartChoice(kind, config.build(cls, filled, f"{place}.{side}"))


def dump_settings(settings: ModelSettings) -> Tree:
    """Return the settings as a map for `parse_settings`; stacks omit inherited keys with the model's own value."""
    tree = config.dump(dataclasses.replace(settings, encoder=None, decoder=None))
    tree = {key: value for key, value in tree.items() if key not in PARTS}
    for side, part in settings.parts.items():
        stack = config.dump(part.settings)
        own = {k: v for k, v in stack.items() if k not in INHERITED or v != tree[k]}
        tree[side] = {"kind": part.kind, **own}
    return tree


def resize(settings: ModelSettings, kept: Collection[str] = (), **sizes: int) -> ModelSettings:
    """Return the settings with other values of inherited keys, also in the stacks, except the `kept` sides."""
    changed: Tree = dict(sizes)
    for side, part in settings.parts.items():
        own = {key: size for key, size in sizes.items() if hasattr(part.settings, key) and side not in kept}
        changed[side] = dataclasses.replace(part, settings=dataclasses.replace(part.settings, **own))
    return dataclasses.replace(settings, **changed)


def keep_heads(tree: Tree, names: Iterable[str], place: str) -> Tree:
    """Return a model's map with exactly these heads; a head keeps the options that the map gives it.

    Raises:
        ValueError: the map has a wrong head or option, even for a head that is left out.
    """
    written = parse_heads(head_map(tree.get("heads", []), f"{place}.heads"), place)
    options = {choice.name: plain(choice.options) for choice in written}
    return {**tree, "heads": {name: options.get(name, {}) for name in names}}


def with_labels(settings: ModelSettings, labels: int) -> ModelSettings:
    """Return the settings with this number of classes in each head that has classes."""
    counted = []
    for head in settings.heads:
        if has_classes(head.name):
            # labels come first, so that config.yaml is the same whether the file named them or not
            options = {"labels": labels} | dict(head.options) | {"labels": labels}
            head = dataclasses.replace(head, options=options)
        counted.append(head)
    return dataclasses.replace(settings, heads=tuple(counted))
