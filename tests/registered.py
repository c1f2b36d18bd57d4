"""Every slot of zoo, and all that is registered in them."""

import importlib
from typing import Any

from test_discover import SLOT
from test_imports import modules
from zoo.registry import Slot


def every_slot() -> dict[str, Slot[Any]]:
    """Every slot that a module of zoo makes, by its name."""
    homes = [(module, name) for module, path in modules().items() for name in SLOT.findall(path.read_text())]
    slots = [getattr(importlib.import_module(module), name) for module, name in homes]
    return {slot.name: slot for slot in slots}


SLOTS = every_slot()
REGISTERED = [  # zoo's own: a package that someone has installed has tests and tables of its own
    (slot, name) for slot in SLOTS for name in SLOTS[slot].names() if SLOTS[slot][name].__module__.startswith("zoo.")
]
