"""Objectives: importing any module of this package registers every objective in `kinds`."""

from zoo.discover import import_all

import_all(__name__)
