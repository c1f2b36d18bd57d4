"""A model's settings as a flat table, path -> the values it takes: what native classes are compared with."""

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any

from zoo.config import slot_of
from zoo.models.layer import TransformerSettings
from zoo.models.parts import PartChoice
from zoo.models.settings import ModelSettings
from zoo.registry import Choice, plain

Facts = dict[str, tuple[Any, ...]]


def facts_of(settings: ModelSettings) -> Facts:
    """Every setting by its path, such as `decoder.norm` and `decoder.norm.eps`, each different value once.

    A setting has several values where the layers of a stack differ, and is missing where the model lacks it.
    """
    pairs = list(unfold_fields("embeddings", settings.embeddings))
    for head in settings.heads:
        pairs += unfold(f"heads.{head.name}", head.inherit(dropout=settings.dropout), None)
    for side, part in settings.parts.items():
        pairs.append((f"{side}.kind", part.kind))
        pairs += [pair for layer in layers_of(part) for pair in unfold_fields(side, layer)]
    found: dict[str, list[Any]] = {}
    for path, value in pairs:
        if value not in found.setdefault(path, []):
            found[path].append(value)
    return {path: tuple(values) for path, values in found.items()}


def layers_of(part: PartChoice) -> list[Any]:
    """The settings of each layer, lists resolved; of a part without such layers its settings themselves."""
    settings = part.settings
    if isinstance(settings, TransformerSettings):
        return [settings.layer(i) for i in range(settings.n_layers)]
    return [settings]


def unfold_fields(prefix: str, settings: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a dataclass."""
    hints = typing.get_type_hints(type(settings), include_extras=True)
    for field in dataclasses.fields(settings):
        yield from unfold(f"{prefix}.{field.name}", getattr(settings, field.name), hints[field.name])


def unfold(path: str, value: Any, annotation: Any) -> Iterator[tuple[str, Any]]:
    """A value under its path; a choice as its name, with its options, defaults included, under theirs."""
    slot = slot_of(annotation)
    if slot is not None and isinstance(value, str):
        value = slot.parse(value, path)
    if not isinstance(value, Choice):
        yield path, plain(value)
        return
    yield path, value.name
    for key, option in value.slot.options(value.name).items():
        yield from unfold(f"{path}.{key}", value.option(key), option.annotation)
