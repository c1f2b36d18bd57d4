"""The heads of models, one per file; all modules in this folder are imported."""

from zoo.discover import import_all

import_all(__name__)
