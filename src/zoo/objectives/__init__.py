"""Objectives: importing any module of this folder finds every one in `kinds`."""

from zoo.discover import import_all

import_all(__name__)
