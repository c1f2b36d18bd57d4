"""Which backend computes attention in training: checked before data is read, then set."""

from collections.abc import Iterator

import torch
from torch import nn

from zoo.blocks.attention import Attention
from zoo.blocks.backends.backend import Backend
from zoo.blocks.position import Position, positions
from zoo.devices.precision import forward_dtype
from zoo.models.kinds.part import Part
from zoo.training.settings import Training

KEY = "training.attention_backend"


def attentions(model: nn.Module) -> Iterator[Attention]:
    """The attention layers of a model whose backend can be chosen."""
    return (attention for part in model.modules() if isinstance(part, Part) for attention in part.attentions())


def use_backend(model: nn.Module, settings: Training) -> None:
    """Give a model's attention layers the backend of the settings."""
    backend = settings.attention_backend.build()
    for attention in attentions(model):
        attention.backend = backend


def check_backend(model: nn.Module, settings: Training, device: torch.device) -> None:
    """Check that the backend can train a model on a device; another one never takes its place in silence.

    Raises:
        ValueError: it cannot; the message names the reason.
    """
    chosen, place = settings.attention_backend, f"{KEY}: {settings.attention_backend.name}"
    if chosen == Training.attention_backend:  # sdpa, torch's own, can train every model on every device
        return
    backend, found = chosen.build(), list(attentions(model))
    if backend.device not in (None, device.type):
        raise ValueError(
            f"{place} trains on {backend.device} only, and this run is on {device.type}; use sdpa or eager"
        )
    if backend.device is not None and torch.cuda.get_device_capability(device) < backend.capability:
        least, own = (".".join(map(str, c)) for c in (backend.capability, torch.cuda.get_device_capability(device)))
        raise ValueError(f"{place} needs a GPU of compute capability {least} or newer, and this is {own}; use sdpa")
    if not found:
        raise ValueError(f"{place}: this model has no attention over whole rows; leave the setting out")
    if backend.narrow and forward_dtype(settings.precision, device) is None:
        problem = f"computes in bfloat16 or float16, and training.precision is {settings.precision}"
        raise ValueError(f"{place} {problem}; set one of the two, or use flex, sdpa or eager")
    obstacle = obstacle_of(backend, model, found)
    if obstacle is not None:
        raise ValueError(f"{place}: {obstacle}, or use sdpa")


def obstacle_of(backend: Backend, model: nn.Module, found: list[Attention]) -> str | None:
    """The first choice in a model that a backend's kernels cannot compute; None: they can compute all of them."""
    obstacles = (backend.obstacle(a.rule(training=True), a.d_key, a.d_value) for a in found)
    first = next((obstacle for obstacle in obstacles if obstacle is not None), None)
    biased = [p for p in model.modules() if isinstance(p, Position) and p.biases]
    if first is None and biased and not backend.biases:
        name = next(name for name in positions.names() if positions[name] is type(biased[0]))
        return f"it adds nothing to the scores, which position '{name}' does; choose flex"
    return first
