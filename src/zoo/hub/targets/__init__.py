"""Native targets, one module per family; importing this package registers all of them."""

from zoo.discover import import_all

import_all(__name__)
