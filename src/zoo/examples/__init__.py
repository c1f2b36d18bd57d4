"""Examples: importing any module of this package registers every form in `forms`."""

from zoo.discover import import_all

import_all(__name__)
