"""Settings of training as a run gets them, from maps."""

from collections.abc import Mapping, Sequence
from typing import Any

from zoo.config import Layer
from zoo.experiments import resolve
from zoo.training.settings import Training


def resolve_training(levels: Sequence[Mapping[str, Any]]) -> Training:
    """The settings of some levels, the lowest first."""
    return resolve.resolve_training(Layer("test", dict(level)) for level in levels)[0]
