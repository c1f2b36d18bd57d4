"""The sources that need no file, by the name that a task's `source.builtin` gives."""

from zoo.data.builtin.numbers import Numbers
from zoo.data.builtin.pydocs import Pydocs, PydocsTopic
from zoo.data.sources.origin import Origin

EMBEDDED: dict[str, type[Origin]] = {"pydocs": Pydocs, "pydocs-topic": PydocsTopic, "numbers": Numbers}
