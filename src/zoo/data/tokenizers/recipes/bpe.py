"""Byte-pair encoding of characters."""

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from zoo.data.ids import ROLES
from zoo.data.tokenizers.recipes.recipe import (
    SPACE,
    TokenizerRecipe,
    choose_letters,
    count_characters,
    merge_pairs,
    tokenizers,
)


@tokenizers.register("bpe")
class BPE(TokenizerRecipe):
    """Byte-pair encoding of characters, one vocabulary for all languages it is trained on; `▁` stands for a space.

    Decoding gives the text back up to runs of whitespace. Punctuation never merges with letters.
    Source: Sennrich et al. 2016, arXiv:1508.07909; the space marker is SentencePiece's (arXiv:1808.06226).

    Args:
        vocab_size: the most tokens, roles included.
        min_frequency: how often two tokens must meet to become one.
    """

    mask_takes_space = True

    def __init__(self, *, vocab_size: int = 8000, lowercase: bool = False, min_frequency: int = 2) -> None:
        super().__init__(vocab_size, lowercase, min_frequency, alphabet=2)

    def pipeline(self, model: models.Model) -> Backend:
        backend = Backend(model)
        lower = [normalizers.Lowercase()] if self.lowercase else []
        spaces = [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip(left=False, right=True)]
        backend.normalizer = normalizers.Sequence([*lower, *spaces])
        # "first": what follows a mask token typed inside a text has its own space, or none
        metaspace = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="first")
        backend.pre_tokenizer = pre_tokenizers.Sequence([metaspace, pre_tokenizers.Punctuation("isolated")])
        backend.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="first")
        return backend

    def learn(self, texts: list[str]) -> models.Model:
        scratch = self.pipeline(models.BPE(unk_token=self.role_tokens["unk"]))
        counts = count_characters(scratch, texts)
        del counts[SPACE]  # it is in the alphabet whether a text writes it or not
        letters = choose_letters(counts, dict.fromkeys(counts, 1), self.vocab_size - len(ROLES) - 1)
        return merge_pairs(self, scratch, texts, [*letters, SPACE])
