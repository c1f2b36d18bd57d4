"""Models: parts, heads, and every kind of encoder and decoder."""

from zoo.discover import import_all

import_all("zoo.models.kinds")  # registers the kinds in their slots
