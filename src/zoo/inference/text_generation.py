"""Generate texts, and count those that end unfinished at the model's `max_length`."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from zoo.blocks.rows.documents import Documents
from zoo.inference.loaded import Loaded, as_runtime_error
from zoo.models.generation.generate import generate
from zoo.models.generation.search import Generated
from zoo.models.generation.settings import GenerateSettings

logger = logging.getLogger(__name__)


@dataclass
class GeneratedCounts:
    """Counts the texts that a command generates, and those of them that are cut off at the model's `max_length`."""

    texts: int = 0
    full: int = 0

    def add(self, found: Sequence[Generated]) -> None:
        """Count texts."""
        self.texts, self.full = self.texts + len(found), self.full + sum(one.full for one in found)

    def warn_unfinished(self, loaded: Loaded) -> None:
        """Warn if texts are unfinished; call this once, at the end of the command."""
        if self.full:
            decoder = loaded.model.decoder
            assert decoder is not None
            said = "%d of %d texts end at the model's max_length (%d tokens), unfinished"
            logger.warning(said, self.full, self.texts, decoder.max_length)


@dataclass(frozen=True)
class TextGeneration:
    """How texts are generated and counted.

    Args:
        counts: the counts of the whole command.
        numbers: of the texts, as in `generate`.
    """

    settings: GenerateSettings
    counts: GeneratedCounts
    numbers: Sequence[int] | None = None


def generate_from_source(
    loaded: Loaded, source: Tensor, documents: Documents, generation: TextGeneration
) -> list[Generated]:
    """Generate a text for each source, a text or an image."""
    begins = [[loaded.tokenizer.roles.id("start")]] * len(source)
    return continue_prompts(loaded, begins, generation, source, documents)


def continue_prompts(
    loaded: Loaded,
    prompts: Sequence[Sequence[int]],
    generation: TextGeneration,
    source: Tensor | None = None,
    documents: Documents | None = None,
) -> list[Generated]:
    """Continue each prompt.

    Args:
        source, documents: one source per prompt, for a model with an encoder.
    """
    end = loaded.tokenizer.roles.end
    with as_runtime_error():
        found = generate(loaded.model, prompts, generation.settings, end, source, documents, generation.numbers)
    generation.counts.add(found)
    return found
