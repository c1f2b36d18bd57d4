"""As `reloading.py`, for folders whose classes are zoo's own: a program that imports them, as its users do."""

import sys

import zoo.hub.modeling.shell  # noqa: F401
from zoo.hub.exporting.reloading import answer

if __name__ == "__main__":
    answer(*sys.argv[1:])
