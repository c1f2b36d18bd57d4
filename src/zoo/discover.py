"""Finding variants: importing every module of a folder is what registers them."""

import importlib
import pkgutil


def import_all(package: str) -> None:
    """Import every module of a package, in the order of their names.

    A folder of variants calls this in its `__init__`, so that a variant is one new file and no list of imports grows
    with it. Whoever imports any module of the folder then finds all of its variants, always in the same order.
    """
    folder = importlib.import_module(package)
    for module in pkgutil.iter_modules(folder.__path__):
        importlib.import_module(f"{package}.{module.name}")
