"""Finding variants: importing the module that defines one is what registers it."""

import importlib
import importlib.metadata
import logging
import pkgutil
from functools import cache

GROUP = "zoo.variants"  # the entry points by which another installed package names its modules of variants
logger = logging.getLogger(__name__)


def import_all(package: str) -> None:
    """Import every module of a package, in the order of their names.

    A folder of variants calls this in its `__init__`, so that a variant is one new file and no list of imports grows
    with it. Whoever imports any module of the folder then finds all of its variants, always in the same order.
    """
    folder = importlib.import_module(package)
    for module in pkgutil.iter_modules(folder.__path__):
        importlib.import_module(f"{package}.{module.name}")


@cache
def import_outside() -> None:
    """Import the modules of variants of every other installed package, once.

    A package that cannot be imported is reported, and zoo goes on without its variants: commands that do not need them
    must not fail because of it.
    """
    for point in importlib.metadata.entry_points(group=GROUP):
        try:
            point.load()
        except (Exception, SystemExit) as error:  # whatever a stranger's module raises; a script may leave
            package = point.dist.name if point.dist is not None else point.value
            logger.warning(
                "package %s: %s cannot be imported, so its variants are missing: %r", package, point.value, error
            )


def is_own(variant: object) -> bool:
    """Whether what was built is of zoo's own code, which does not change without a word."""
    return type(variant).__module__.partition(".")[0] == __name__.partition(".")[0]


@cache  # reading what every installed package offers takes a tenth of a second
def outside_packages() -> dict[str, str]:
    """The other installed packages that register variants, with their versions."""
    points = importlib.metadata.entry_points(group=GROUP)
    found = {point.dist.name: point.dist.version for point in points if point.dist is not None}
    return dict(sorted(found.items()))
