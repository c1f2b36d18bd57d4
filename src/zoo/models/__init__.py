"""Models: parts, heads, and every kind of encoder and decoder."""

from zoo.discover import import_all

import_all("zoo.models.kinds")  # the slots lie beside the folder: whoever reads them finds the kinds in them
