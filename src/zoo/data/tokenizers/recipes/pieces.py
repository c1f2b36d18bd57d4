"""Code shared by BPE and unigram: pieces with a space marker, and byte tokens for characters without a token."""

from collections.abc import Iterable

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from zoo.data.ids import ROLES
from zoo.data.tokenizers.recipes.recipe import SPACE, TokenizerRecipe, choose_letters

BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))  # as SentencePiece spells them
ROOM_FOR_BYTES = 4 * len(BYTES)  # vocabulary size at which byte tokens are a quarter


def choose_bytes(vocab_size: int, byte_fallback: bool | None) -> tuple[str, ...]:
    """The byte tokens of a vocabulary, all or none; None: all if they are at most a quarter of it."""
    return BYTES if (vocab_size >= ROOM_FOR_BYTES if byte_fallback is None else byte_fallback) else ()


def pieces_pipeline(recipe: TokenizerRecipe, model: models.Model, with_bytes: bool) -> Backend:
    """A backend whose pieces have a space marker and never contain both letters and punctuation.

    So a text that spells a role or a byte token is cut at its punctuation, and never becomes that token.
    """
    backend = Backend(model)
    spaces = [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip(left=False, right=True)]
    backend.normalizer = recipe.normalizer(*recipe.lower(), *spaces)
    # "first": no space is added after a mask token inside a text
    metaspace = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="first")
    backend.pre_tokenizer = pre_tokenizers.Sequence([metaspace, pre_tokenizers.Punctuation("isolated")])
    spaced = decoders.Metaspace(replacement=SPACE, prepend_scheme="first")
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), spaced]) if with_bytes else spaced
    return backend


def choose_alphabet(recipe: TokenizerRecipe, texts: Iterable[str], taken: int) -> list[str]:
    """The characters that get tokens; the space marker comes last, and is included even if no text has a space.

    Args:
        taken: number of tokens in the vocabulary that are neither roles nor characters.
    """
    counts = recipe.count_characters(texts)
    del counts[SPACE], counts[" "]
    room = recipe.vocab_size - len(ROLES) - taken - 1
    return [*choose_letters(counts, dict.fromkeys(counts, 1), room), SPACE]
