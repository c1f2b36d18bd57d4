"""Every objective: one a file, found by being in this folder."""

from zoo.discover import import_all

import_all(__name__)
