"""Create models by name, for Python users."""

import fnmatch
from pathlib import Path
from typing import Any

from zoo import config
from zoo.models.blank import refuse_too_large
from zoo.models.model import Model
from zoo.models.settings import load_settings
from zoo.python_errors import for_python
from zoo.registry import check, refuse_below


def list_models(pattern: str = "*") -> list[str]:
    """Return the names of the shipped models that match a pattern such as `bert*`."""
    return fnmatch.filter(config.names("configs"), check(pattern, str, "pattern"))


@for_python
def create_model(name: str | Path, *, seed: int = 0, **changes: Any) -> Model:
    """Build a model by its name or the path of its file, initialized from a seed.

    Args:
        seed: of the initial weights.
        changes: keys of the model, as for `--set`: `create_model("gpt2", n_layers=6, norm="rmsnorm",
            **{"decoder.d_ff": 1024})`.

    Raises:
        ValueError: an unknown name, key or option, or a value that does not fit.
    """
    refuse_below(0, seed=check(seed, int, "seed"))
    sets = [(tuple(key.split(".")), value) for key, value in changes.items()]
    settings = load_settings(str(name) if isinstance(name, Path) else check(name, str, "name"), sets)
    with refuse_too_large():
        return Model.from_seed(settings, seed)
