"""One token for each character."""

import sys
from collections.abc import Iterable

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models

from zoo.data.ids import ROLES
from zoo.data.tokenizers.recipes.recipe import NormalForm, TokenizerRecipe, by_frequency, tokenizers


@tokenizers.register("characters")
class Characters(TokenizerRecipe):
    """One token for each character, whitespace included, in the order of their code points.

    Args:
        vocab_size: maximum number of tokens, roles included; None keeps every character.
        min_frequency: how often a character must occur to be kept.
    """

    def __init__(
        self,
        *,
        vocab_size: int | None = None,
        lowercase: bool = False,
        normalization: NormalForm = "none",
        min_frequency: int = 1,
    ) -> None:
        super().__init__(sys.maxsize if vocab_size is None else vocab_size, lowercase, normalization, min_frequency)

    def pipeline(self, model: models.Model) -> Backend:
        backend = Backend(model)
        backend.normalizer = self.normalizer(*self.lower())
        backend.decoder = decoders.Fuse()
        return backend

    def learn(self, texts: Iterable[str]) -> models.Model:
        unk = self.role_tokens["unk"]
        counts = self.count_characters(texts)
        frequent = [c for c in by_frequency(counts) if counts[c] >= self.min_frequency]
        tokens = [*self.role_tokens.values(), *sorted(frequent[: self.vocab_size - len(ROLES)])]
        return models.BPE({token: i for i, token in enumerate(tokens)}, [], unk_token=unk)  # BPE without merges
