"""What a model writes about its source."""

from collections.abc import Sequence

from torch import Tensor

from zoo.blocks.documents import Documents
from zoo.inference.loaded import Loaded, working
from zoo.models.generation.generate import generate
from zoo.models.generation.search import Generated
from zoo.models.generation.settings import GenerateSettings


def write(
    loaded: Loaded,
    source: Tensor,
    documents: Documents,
    settings: GenerateSettings,
    numbers: Sequence[int] | None = None,
) -> list[Generated]:
    """What the model writes for each row of sources, texts or pictures; `numbers`: of the texts, as in `generate`."""
    begins = [[loaded.tokenizer.roles.id("start")]] * len(source)
    with working():
        return generate(loaded.model, begins, settings, loaded.tokenizer.roles.end, source, documents, numbers)


def write_on(
    loaded: Loaded, prompts: Sequence[Sequence[int]], settings: GenerateSettings, numbers: Sequence[int] | None = None
) -> list[Generated]:
    """What a decoder writes behind each prompt; `numbers`: of the texts, as in `generate`."""
    with working():
        return generate(loaded.model, prompts, settings, loaded.tokenizer.roles.end, numbers=numbers)
