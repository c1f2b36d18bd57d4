"""Byte-pair encoding of characters."""

from collections.abc import Iterable

from tokenizers import Tokenizer as Backend
from tokenizers import models

from zoo.data.tokenizers.recipes.pieces import choose_alphabet, choose_bytes, pieces_pipeline
from zoo.data.tokenizers.recipes.recipe import NormalForm, TokenizerRecipe, merge_pairs, tokenizers


@tokenizers.register("bpe")
class BPE(TokenizerRecipe):
    """Byte-pair encoding of characters, one vocabulary for all languages it is trained on; `▁` stands for a space.

    Decoding gives the text back up to runs of whitespace. Punctuation never merges with letters.
    Source: Sennrich et al. 2016, arXiv:1508.07909; the space marker and the bytes are SentencePiece's
    (arXiv:1808.06226).

    Args:
        vocab_size: maximum number of tokens, roles and bytes included.
        min_frequency: how often two tokens must be adjacent to be merged.
        byte_fallback: whether a character that has no token is encoded as its bytes, which take 256 tokens, and never
            as unknown; None: if the vocabulary has at least 1,024 tokens.
    """

    mask_takes_space = True

    def __init__(
        self,
        *,
        vocab_size: int = 8000,
        lowercase: bool = False,
        normalization: NormalForm = "none",
        min_frequency: int = 2,
        byte_fallback: bool | None = None,
    ) -> None:
        self.bytes = choose_bytes(vocab_size, byte_fallback)
        super().__init__(vocab_size, lowercase, normalization, min_frequency, alphabet=len(self.bytes) + 2)

    def pipeline(self, model: models.Model) -> Backend:
        return pieces_pipeline(self, model, with_bytes=bool(self.bytes))

    def learn(self, texts: Iterable[str]) -> models.Model:
        model = models.BPE(unk_token=self.role_tokens["unk"], byte_fallback=bool(self.bytes))
        alphabet = choose_alphabet(self, texts, len(self.bytes))
        return merge_pairs(self, self.pipeline(model), texts, alphabet, self.bytes)
