"""Finding variants: importing a module registers the variants that it defines."""

import importlib
import importlib.metadata
import logging
import pkgutil
from functools import cache

GROUP = "zoo.variants"  # entry points of other packages: each names a module with variants
logger = logging.getLogger(__name__)


def import_all(package: str) -> None:
    """Import every module of a package, in the order of their names.

    A folder of variants calls this in its `__init__`, so a new variant is one new file, without a list of imports to
    extend. Importing any module of the folder then registers all of its variants, always in the same order.
    """
    folder = importlib.import_module(package)
    for module in pkgutil.iter_modules(folder.__path__):
        importlib.import_module(f"{package}.{module.name}")


@cache
def import_variant_packages() -> None:
    """Import the variant modules of all other installed packages, once.

    A package that cannot be imported is logged and skipped: commands that do not need it must not fail.
    """
    for point in importlib.metadata.entry_points(group=GROUP):
        try:
            point.load()
        except (Exception, SystemExit) as error:  # a foreign module may raise anything, even exit
            package = point.dist.name if point.dist is not None else point.value
            logger.warning(
                "package %s: %s cannot be imported, so its variants are missing: %r", package, point.value, error
            )


def is_zoo_class(variant: object) -> bool:
    """Whether an object's class is zoo's own, so that zoo's version or source hash identifies its code."""
    return type(variant).__module__.partition(".")[0] == __name__.partition(".")[0]


@cache  # reading all entry points takes 0.1 s
def variant_packages() -> dict[str, str]:
    """Package -> version, of the other installed packages that register variants."""
    points = importlib.metadata.entry_points(group=GROUP)
    found = {point.dist.name: point.dist.version for point in points if point.dist is not None}
    return dict(sorted(found.items()))
