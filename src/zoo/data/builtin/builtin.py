"""Sources that need no file, by the name that a task's `source.builtin` gives."""

from zoo.data.sources.origin import Origin
from zoo.registry import Slot

builtins: Slot[Origin] = Slot("built-in source")
