"""Programs of benchmarks/ and docs/, which are files and no modules that tests could import."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def load_program(path: str) -> Any:
    """What a program defines, such as that of `benchmarks/kill.py`."""
    folder = str((ROOT / path).parent)
    if folder not in sys.path:  # a program imports what lies beside it; behind all else, so that it hides nothing
        sys.path.append(folder)
    spec = importlib.util.spec_from_file_location(path.removesuffix(".py").replace("/", "_"), ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module
