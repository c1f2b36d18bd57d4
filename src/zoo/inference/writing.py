"""What a model writes about its source."""

from torch import Tensor

from zoo.inference.loaded import Loaded
from zoo.models.generation.generate import generate
from zoo.models.generation.search import Generated
from zoo.models.generation.settings import GenerateSettings


def write(loaded: Loaded, source: Tensor, documents: Tensor, settings: GenerateSettings) -> list[Generated]:
    """What the model writes for each row of sources, texts or pictures."""
    roles = loaded.tokenizer.roles
    return generate(loaded.model, [[roles.id("start")]] * len(source), settings, roles.end, source, documents)
