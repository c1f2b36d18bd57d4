"""The predictors, one per file, each named for the objective whose head it uses; all modules here are imported."""

from zoo.discover import import_all

import_all(__name__)
