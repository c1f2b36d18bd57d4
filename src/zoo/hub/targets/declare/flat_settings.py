"""A model's settings as a flat table, path -> distinct values, which native targets are compared with."""

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from zoo.blocks.attention import head_widths
from zoo.config import slot_of
from zoo.models.kinds.layer import TransformerSettings
from zoo.models.kinds.part import PartChoice
from zoo.models.settings import ModelSettings
from zoo.registry import Choice, plain

T = TypeVar("T")
FlatSettings = dict[str, tuple[Any, ...]]
GLOBAL, LOCAL = "global", "local"  # layers without an attention window, and layers with one
LAYER_KINDS = ("encoder.layers", "decoder.layers")


def flatten(settings: ModelSettings) -> FlatSettings:
    """Return every setting by its path, such as `decoder.norm` and `decoder.norm.eps`, with its distinct values.

    A setting has several values if the layers of a stack differ, and no entry if the model lacks it. Derived settings
    are written out: widths of heads and of token embeddings, and `n_kv_heads` for attention without that option.
    Settings of layers with a window, and of layers without one, appear a second time under the names of `in_layers`;
    `<side>.layers` lists the kind of every layer.
    """
    width = settings.embeddings.width or [*settings.parts.values()][-1].settings.d_model
    embeddings = dataclasses.replace(settings.embeddings, width=width)
    pairs = [*unfold_fields("embeddings", embeddings), *unfold_fields("pooler", settings.pooler)]
    for head in settings.heads:
        pairs += unfold(f"heads.{head.name}", head.inherit(dropout=settings.dropout), None)
    for side, part in settings.parts.items():
        pairs.append((f"{side}.kind", part.kind))
        layers = layers_of(part)
        pairs += [pair for layer in distinct(layers) for pair in unfold_layer(side, layer)]
        pairs += kinds_of(side, [layer for layer in layers if isinstance(layer, TransformerSettings)])
    found: dict[str, list[Any]] = {}
    for path, value in pairs:
        if value not in found.setdefault(path, []):
            found[path].append(value)
    return {path: tuple(values) for path, values in found.items()}


def layers_of(part: PartChoice) -> list[Any]:
    """The settings of each layer, with per-layer lists resolved; a part without such layers counts as one."""
    settings = part.settings
    if isinstance(settings, TransformerSettings):
        return [settings.layer(i) for i in range(settings.n_layers)]
    return [settings]


def unfold_layer(side: str, layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the settings of one layer by path, derived settings included."""
    if not isinstance(layer, TransformerSettings):
        yield from unfold_fields(side, layer)
        return
    attention = layer.attention
    known = attention.slot.options(attention.name)
    if "n_kv_heads" not in known:
        yield f"{side}.attention.n_kv_heads", layer.n_heads
    given = {name: attention.option(name) if name in known else None for name in ("d_key", "d_value", "qk_norm")}
    widths = head_widths(layer.d_model, layer.n_heads, given["d_key"], given["d_value"])
    follows = {"d_key": widths[0], "d_value": widths[1]} | ({"qk_norm": "rmsnorm"} if given["qk_norm"] is True else {})
    written = {**attention.options, **{name: value for name, value in follows.items() if name in known}}
    explicit = dataclasses.replace(attention, options=written)
    yield from unfold_fields(side, dataclasses.replace(layer, attention=explicit))


def kinds_of(side: str, layers: list[TransformerSettings]) -> Iterator[tuple[str, Any]]:
    """Yield the kind of every layer, and the settings of the layers of each kind."""
    if layers:
        yield f"{side}.layers", tuple(map(kind_of, layers))
    for layer in distinct(layers):
        yield from ((in_layers(kind_of(layer), path), value) for path, value in unfold_layer(side, layer))


def kind_of(layer: TransformerSettings) -> str:
    """Return whether a layer's attention is global or has a window."""
    return GLOBAL if layer.attention.options.get("window") is None else LOCAL


def distinct(layers: list[T]) -> list[T]:
    """The distinct settings among those of several layers."""
    found: list[T] = []
    for layer in layers:
        if layer not in found:
            found.append(layer)
    return found


def in_layers(kind: str, path: str) -> str:
    """The path of a setting in one kind of layer, such as `encoder.attention.window in local layers`."""
    return f"{path} in {kind} layers"


def by_layer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Combine the settings of different kinds of layers into lists over all layers: the inverse of `in_layers`.

    `<side>.layers` gives the kind of each layer; a layer whose kind lacks a setting gets null.
    """
    kinds = {path.split(".")[0]: tuple(value) for path, value in values.items() if path in LAYER_KINDS}
    found = {}
    for path, value in values.items():
        plain_path, among, kind = path.removesuffix(" layers").partition(" in ")
        if path in LAYER_KINDS:
            continue
        if not among:
            found[path] = value
        elif kind in kinds[side := path.split(".")[0]]:
            found.setdefault(plain_path, [None] * len(kinds[side]))
            found[plain_path] = [value if k == kind else v for k, v in zip(kinds[side], found[plain_path], strict=True)]
    return found


def unfold_fields(prefix: str, settings: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a dataclass by path."""
    hints = typing.get_type_hints(type(settings), include_extras=True)
    for field in dataclasses.fields(settings):
        yield from unfold(f"{prefix}.{field.name}", getattr(settings, field.name), hints[field.name])


def unfold(path: str, value: Any, annotation: Any) -> Iterator[tuple[str, Any]]:
    """Yield a value under its path; a choice yields its name, then all its options by path, defaults included."""
    slot = slot_of(annotation)
    if slot is not None and isinstance(value, str):
        value = slot.parse(value, path)
    if not isinstance(value, Choice):
        yield path, plain(value)
        return
    yield path, value.name
    for key, option in value.slot.options(value.name).items():
        yield from unfold(f"{path}.{key}", value.option(key), option.annotation)
