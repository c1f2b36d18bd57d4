"""Which backend computes attention in each layer: the fastest one that the hardware has and that knows the layer."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from zoo.blocks.attention import Attention
from zoo.blocks.backends.backend import Backend, backends
from zoo.blocks.position import Position
from zoo.devices.compiling import missing_for
from zoo.devices.precision import AUTO
from zoo.models.kinds.part import Part

Layer = tuple[Attention, Position | None]


class Hardware(NamedTuple):
    """What decides which kernels can run.

    Args:
        device: its kind.
        capability: compute capability of a GPU.
        dtype: of the forward pass; None: float32.
        missing: what torch lacks to write kernels for it; None: nothing.
    """

    device: str
    capability: tuple[int, int]
    dtype: torch.dtype | None
    missing: str | None = None


@dataclass(frozen=True)
class ChosenBackends:
    """What computes attention in a model.

    Args:
        by_layer: in the order of `layers_of`.
        said: which ones, and why not a faster one.
    """

    by_layer: list[Backend]
    said: str


def layers_of(model: nn.Module) -> list[Layer]:
    """The attention layers of a model whose backend can be chosen, and where order enters each."""
    return [layer for part in model.modules() if isinstance(part, Part) for layer in part.attentions()]


def attentions(model: nn.Module) -> Iterator[Attention]:
    """The same, without their positions."""
    return (attention for attention, _ in layers_of(model))


def kinds_in(model: nn.Module) -> set[str]:
    """The kinds of attention weights that a model has."""
    found = ((name.partition(".")[0], module) for name, module in model.named_modules())
    return {f"{part}.{'cross' if one.crosses else 'self'}" for part, one in found if isinstance(one, Attention)}


def use_fastest(model: nn.Module, dtype: torch.dtype | None) -> None:
    """Give the attention layers of a model that is used, not trained, the fastest backends of its device.

    None that compiles its kernel first: a few texts do not earn that back.

    Args:
        dtype: of the forward pass; None: float32.
    """
    device = next(model.parameters()).device
    set_backends(model, fastest(layers_of(model), hardware(device, dtype), training=False))


def set_backends(model: nn.Module, chosen: ChosenBackends) -> None:
    """Set the backends of a model's attention layers."""
    for attention, backend in zip(attentions(model), chosen.by_layer, strict=True):
        attention.backend = backend


def hardware(device: torch.device, dtype: torch.dtype | None) -> Hardware:
    """What a model computes on, in a dtype (None: float32)."""
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else (0, 0)
    missing = missing_for(device) if device.type == "cuda" else None
    return Hardware(device.type, capability, dtype, None if missing is None else missing.what)


def fastest(layers: list[Layer], on: Hardware, training: bool = True) -> ChosenBackends:
    """In each layer the fastest backend that can compute it."""
    known = [name for name in backends.names() if training or not backends[name].compiles]
    names = sorted(known, key=lambda name: backends[name].rank, reverse=True)
    lacks = {name: lacking(backends[name], on._replace(missing=None)) or slower(backends[name], on) for name in names}
    able = {name: backends[name]() for name in names if lacks[name] is None}
    reasons = [f"{name} {lacks[name]}" for name in names[:1] if name not in able]
    chosen = []
    for layer in layers:
        # a layer's own obstacle comes first: installing what is missing would not help it
        obstacles = {name: obstacle_of(b, layer, training) or unwritten(type(b), on) for name, b in able.items()}
        chosen.append(next(name for name, obstacle in obstacles.items() if obstacle is None))
        faster = list(obstacles)[: list(obstacles).index(chosen[-1])]
        reasons += [f"{name} {obstacles[name]}" for name in faster]
    # one for each layer: a kernel that cannot be compiled is that of its layer
    by_layer = [backends[name]() for name in chosen]
    why = "; ".join(dict.fromkeys([AUTO, *reasons, *formulas(by_layer, layers, on, training)]))
    return ChosenBackends(by_layer, f"{counted(chosen)} ({why})" if chosen else "none to choose")


def formulas(by_layer: list[Backend], layers: list[Layer], on: Hardware, training: bool = True) -> list[str]:
    """What the backends of some layers compute by the formula, each said once."""
    rules = (attention.rule(training) for attention, _ in layers)
    said = ((one, one.by_formula(rule, on.device)) for one, rule in zip(by_layer, rules, strict=True))
    return list(dict.fromkeys(f"{backends.name_of(one)} {formula}" for one, formula in said if formula is not None))


def counted(names: list[str]) -> str:
    """Which backends, and in how many layers each where there are several."""
    counts = Counter(names)
    if len(counts) == 1:
        return names[0]
    return ", ".join(f"{name} in {count} of {len(names)} layers" for name, count in counts.most_common())


def lacking(kind: type[Backend], on: Hardware) -> str | None:
    """What keeps a backend from running on some hardware, as a verb and its object; None: nothing."""
    if kind.device not in (None, on.device):
        return f"runs on {kind.device} only, and this is {on.device}"
    if on.capability < kind.capability:
        least, own = (".".join(map(str, capability)) for capability in (kind.capability, on.capability))
        return f"needs a GPU of compute capability {least} or newer, and this is {own}"
    if kind.narrow and on.dtype is None:
        return "computes in bfloat16 or float16, and this run in float32 (training.precision)"
    return unwritten(kind, on)


def unwritten(kind: type[Backend], on: Hardware) -> str | None:
    """What is missing to write a backend's kernel, as a verb and its object; None: nothing, or it has one."""
    return f"needs {on.missing}" if kind.compiles and on.missing is not None else None


def slower(kind: type[Backend], on: Hardware) -> str | None:
    """Why a backend that can run is not the faster one: in float32 no kernel of a GPU beats sdpa's."""
    return "is made for bfloat16 and float16" if kind.device is not None and on.dtype is None else None


def obstacle_of(backend: Backend, layer: Layer, training: bool = True) -> str | None:
    """What a layer demands that a backend does not do; None: it does all."""
    attention, position = layer
    return backend.obstacle(attention.rule(training), attention.d_key, attention.d_value, position)
