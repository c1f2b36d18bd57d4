"""Byte-pair encoding of bytes."""

from collections.abc import Iterable

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from zoo.data.tokenizers.recipes.recipe import NormalForm, TokenizerRecipe, merge_pairs, tokenizers


@tokenizers.register("byte_bpe")
class ByteBPE(TokenizerRecipe):
    """GPT-2's tokenizer: byte-pair encoding of bytes, so that every text can be encoded and is decoded exactly.

    With `lowercase` or `normalization`, decoding gives the text in that form.
    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2.

    Args:
        vocab_size: maximum number of tokens, roles and the 256 bytes included.
        min_frequency: how often two tokens must be adjacent to be merged.
    """

    mask_takes_space = True

    def __init__(
        self,
        *,
        vocab_size: int = 32000,
        lowercase: bool = False,
        normalization: NormalForm = "none",
        min_frequency: int = 2,
    ) -> None:
        super().__init__(vocab_size, lowercase, normalization, min_frequency, alphabet=256)

    def pipeline(self, model: models.Model) -> Backend:
        backend = Backend(model)
        backend.normalizer = self.normalizer(*self.lower())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        return backend

    def learn(self, texts: Iterable[str]) -> models.Model:
        return merge_pairs(self, self.pipeline(models.BPE()), texts, pre_tokenizers.ByteLevel.alphabet())
