"""Pretrain your own Transformer variant, fine-tune it, and publish it as a checkpoint that plain transformers loads."""

import importlib
from typing import Any

__version__ = "0.1.0"
__all__ = ["create_model", "export", "list_models", "load", "pipeline"]

PUBLIC = {  # name -> the module that has it, imported on first use: `import zoo` alone loads not even torch
    "create_model": "zoo.models.create",
    "list_models": "zoo.models.create",
    "load": "zoo.hub.api",
    "export": "zoo.hub.api",
    "pipeline": "zoo.hub.api",
}


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module 'zoo' has no attribute '{name}'; available: {', '.join(PUBLIC)}")
    return getattr(importlib.import_module(PUBLIC[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *PUBLIC]
