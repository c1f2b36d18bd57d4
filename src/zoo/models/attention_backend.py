"""Choose the attention backend of each layer: the fastest one that runs on the hardware and supports the layer."""

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
        device: its type, such as "cuda".
        capability: compute capability of a GPU; (0, 0) elsewhere.
        dtype: of the forward pass; None: float32.
        missing: what torch lacks to compile kernels for the device; None: nothing.
    """

    device: str
    capability: tuple[int, int]
    dtype: torch.dtype | None
    missing: str | None = None


@dataclass(frozen=True)
class ChosenBackends:
    """The attention backends of a model.

    Args:
        by_layer: in the order of `layers_of`.
        message: which ones, and why not faster ones.
    """

    by_layer: list[Backend]
    message: str


def layers_of(model: nn.Module) -> list[Layer]:
    """Return the attention layers of a model whose backend can be chosen, each with its position module."""
    return [layer for part in model.modules() if isinstance(part, Part) for layer in part.attentions()]


def attentions(model: nn.Module) -> Iterator[Attention]:
    """Yield the attention layers of `layers_of`, without their positions."""
    return (attention for attention, _ in layers_of(model))


def kinds_in(model: nn.Module) -> set[str]:
    """Return the kinds of attention weights that a model has, as in `Output.weights`."""
    found = ((name.partition(".")[0], module) for name, module in model.named_modules())
    return {f"{part}.{'cross' if one.crosses else 'self'}" for part, one in found if isinstance(one, Attention)}


def use_fastest(model: nn.Module, dtype: torch.dtype | None) -> None:
    """Give a model's attention layers the fastest backends for inference on its device.

    Not those that compile their kernel first: that takes longer than it saves for a few texts.

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
    """Describe a device and the dtype of the forward pass on it (None: float32)."""
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else (0, 0)
    missing = missing_for(device) if device.type == "cuda" else None
    return Hardware(device.type, capability, dtype, None if missing is None else missing.what)


def fastest(layers: list[Layer], on: Hardware, training: bool = True) -> ChosenBackends:
    """Choose the fastest backend that can compute each layer."""
    known = [name for name in backends.names() if training or not backends[name].compiles]
    names = sorted(known, key=lambda name: backends[name].rank, reverse=True)
    lacks = {
        name: hardware_obstacle(backends[name], on._replace(missing=None)) or speed_obstacle(backends[name], on)
        for name in names
    }
    able = {name: backends[name]() for name in names if lacks[name] is None}
    reasons = [f"{name} {lacks[name]}" for name in names[:1] if name not in able]
    chosen = []
    for layer in layers:
        # report a layer's own obstacle before a missing compiler: installing one would not help this layer
        obstacles = {
            name: layer_obstacle(b, layer, training) or compiler_obstacle(type(b), on) for name, b in able.items()
        }
        chosen.append(next(name for name, obstacle in obstacles.items() if obstacle is None))
        faster = list(obstacles)[: list(obstacles).index(chosen[-1])]
        reasons += [f"{name} {obstacles[name]}" for name in faster]
    # an instance per layer: a kernel may fail to compile for one layer only
    by_layer = [backends[name]() for name in chosen]
    why = "; ".join(dict.fromkeys([AUTO, *reasons, *formula_messages(by_layer, layers, on, training)]))
    return ChosenBackends(by_layer, f"{describe_counts(chosen)} ({why})" if chosen else "none to choose")


def formula_messages(by_layer: list[Backend], layers: list[Layer], on: Hardware, training: bool = True) -> list[str]:
    """Return messages, each once, on what backends compute by the plain formula instead of their kernel."""
    rules = (attention.rule(training) for attention, _ in layers)
    said = ((one, one.unfused(rule, on.device)) for one, rule in zip(by_layer, rules, strict=True))
    return list(dict.fromkeys(f"{backends.name_of(one)} {formula}" for one, formula in said if formula is not None))


def describe_counts(names: list[str]) -> str:
    """Return the backends' names as a message; if there are several, with the number of layers of each."""
    counts = Counter(names)
    if len(counts) == 1:
        return names[0]
    return ", ".join(f"{name} in {count} of {len(names)} layers" for name, count in counts.most_common())


def hardware_obstacle(kind: type[Backend], on: Hardware) -> str | None:
    """Return why a backend cannot run on this hardware, as a verb phrase; None: it can."""
    if kind.device not in (None, on.device):
        return f"runs on {kind.device} only, and this is {on.device}"
    if on.capability < kind.capability:
        least, own = (".".join(map(str, capability)) for capability in (kind.capability, on.capability))
        return f"needs a GPU of compute capability {least} or newer, and this is {own}"
    if kind.narrow and on.dtype is None:
        return "computes in bfloat16 or float16, and this run in float32 (training.precision)"
    return compiler_obstacle(kind, on)


def compiler_obstacle(kind: type[Backend], on: Hardware) -> str | None:
    """Return what is missing to compile a backend's kernel, as a verb phrase; None: nothing, or it compiles none."""
    return f"needs {on.missing}" if kind.compiles and on.missing is not None else None


def speed_obstacle(kind: type[Backend], on: Hardware) -> str | None:
    """Return why a backend that can run is not faster: in float32 no GPU kernel beats sdpa's. None: it may be."""
    return "is made for bfloat16 and float16" if kind.device is not None and on.dtype is None else None


def layer_obstacle(backend: Backend, layer: Layer, training: bool = True) -> str | None:
    """Return what a layer needs that a backend does not support; None: it supports everything."""
    attention, position = layer
    return backend.obstacle(attention.rule(training), attention.d_key, attention.d_value, position)
