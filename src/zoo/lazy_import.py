"""Deferred imports, for modules that are slow to import or need packages that may be missing.

Each caller of `import_object` says what it saves. Everything else is imported at the top of its file.
"""

import importlib
from typing import Any


def import_object(place: str) -> Any:
    """Import and return `module:name`."""
    module, name = place.split(":")
    return getattr(importlib.import_module(module), name)
