"""Every predictor: one a file, named for the objective whose head it asks, found by being in this folder."""

from zoo.discover import import_all

import_all(__name__)
