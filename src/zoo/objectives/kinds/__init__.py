"""The objectives, one per file: importing this package registers every module of the folder."""

from zoo.discover import import_all

import_all(__name__)
