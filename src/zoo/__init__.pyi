"""What `import zoo` offers, for type checkers and editors; `__init__.py` imports each name on first use."""

from zoo.hub.api import export as export
from zoo.hub.api import load as load
from zoo.hub.api import pipeline as pipeline
from zoo.models.create import create_model as create_model
from zoo.models.create import list_models as list_models

__version__: str
__all__ = ["create_model", "export", "list_models", "load", "pipeline"]
