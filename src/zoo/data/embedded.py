"""The sources that need no file, by the name that a task's `source.builtin` gives."""

from zoo.data.numbers import Numbers
from zoo.data.origin import Origin
from zoo.data.pydocs import Pydocs, PydocsTopic

EMBEDDED: dict[str, type[Origin]] = {"pydocs": Pydocs, "pydocs-topic": PydocsTopic, "numbers": Numbers}
