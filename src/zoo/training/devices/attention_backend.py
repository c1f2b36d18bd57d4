"""Choose the attention backend of a training, the named one or the fastest, before data is read."""

import torch
from torch import nn

from zoo.blocks.backends.backend import backends
from zoo.blocks.backends.sdpa import Sdpa
from zoo.devices.precision import AUTO, forward_dtype
from zoo.models.attention_backend import (
    ChosenBackends,
    Hardware,
    Layer,
    fastest,
    formula_messages,
    hardware,
    hardware_obstacle,
    layer_obstacle,
    layers_of,
    set_backends,
)
from zoo.training.settings import Training

KEY = "training.attention_backend"


def use_backends(model: nn.Module, settings: Training, device: torch.device) -> None:
    """Give a model's attention layers the backends that the settings choose.

    Raises:
        ValueError: as `choose_backends`.
    """
    set_backends(model, choose_backends(model, settings, hardware_of(settings, device)))


def hardware_of(settings: Training, device: torch.device) -> Hardware:
    """Return the device and the precision that a training computes in."""
    return hardware(device, forward_dtype(settings.precision, device))


def choose_backends(model: nn.Module, settings: Training, on: Hardware) -> ChosenBackends:
    """Return the backend that is named, or in each layer the fastest one that can compute it.

    Raises:
        ValueError: the named one cannot compute this model; it is never silently replaced.
    """
    wanted, layers = settings.attention_backend, layers_of(model)
    if isinstance(wanted, str):
        return fastest(layers, on)
    kind, place = backends[wanted.name], f"{KEY}: {wanted.name}"
    if not layers and kind is not Sdpa:  # Sdpa also computes a recurrent decoder's attention
        raise ValueError(f"{place}: this model has no full-sequence attention; leave the setting out")
    problem = hardware_obstacle(kind, on)
    if problem is None:
        backend = wanted.build()
        problem = next(filter(None, (layer_obstacle(backend, layer) for layer in layers)), None)
    if problem is not None:
        raise ValueError(f"{place} {problem}; use one of {', '.join([AUTO, *capable_backends(layers, on)])}")
    by_layer = [wanted.build() for _ in layers]
    return ChosenBackends(by_layer, f"{wanted.name} ({'; '.join([KEY, *formula_messages(by_layer, layers, on)])})")


def capable_backends(layers: list[Layer], on: Hardware) -> list[str]:
    """Return the names of the backends that can compute all layers on this hardware."""
    here = [name for name in backends.names() if hardware_obstacle(backends[name], on) is None]
    return [name for name in here if all(layer_obstacle(backends[name](), layer) is None for layer in layers)]
