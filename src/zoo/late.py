"""What is imported only when it is asked for: commands need not wait for what they do not use, nor have all packages.

Whoever calls `load` says what is saved by it. All else is imported at the top of its file.
"""

import importlib
from typing import Any


def load(place: str) -> Any:
    """Import `module:name`."""
    module, name = place.split(":")
    return getattr(importlib.import_module(module), name)
