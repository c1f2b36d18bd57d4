"""Token ids with the characters that they stand for: which tokens a word has, and which an answer."""

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zoo.data.ids import Ids
from zoo.data.tokenizers.tokenizer import Tokenizer


class PlacedTokens(NamedTuple):
    """The ids of a text and the characters begin:end of each.

    The white space that a token begins with is left out; marks that a normalizer composes or strips are the token's.
    """

    ids: Ids
    begins: Ids
    ends: Ids


def place_tokens(tokenizer: Tokenizer, texts: Sequence[str]) -> list[PlacedTokens]:
    """The ids of each text, as `Tokenizer.encode` gives them, and where they stand.

    Raises:
        ValueError: a text is not made of whole characters.
    """
    found = []
    for text, (ids, offsets) in zip(texts, tokenizer.encode_with_offsets(texts), strict=True):
        begins, ends = offsets.T
        blank = np.array([character.isspace() for character in text] + [False])
        while (inside := blank[begins] & (begins < ends)).any():
            begins = begins + inside
        if not text.isascii():
            ends = with_marks(text, begins, ends)
        found.append(PlacedTokens(ids, begins, ends))
    return found


def with_marks(text: str, begins: Ids, ends: Ids) -> Ids:
    """Where tokens end, moved over the marks behind them that stand for no token.

    A normalizer that composes characters, or strips accents, counts the first one of those alone.
    """
    marks, following = np.array([is_mark(character) for character in text] + [False]), np.append(begins[1:], len(text))
    while (inside := marks[ends] & (begins < ends) & (ends < following)).any():
        ends = ends + inside
    return ends


def is_mark(character: str) -> bool:
    """Whether a character combines with the one before it: an accent, or a vowel or last consonant of Hangul."""
    return unicodedata.category(character).startswith("M") or "\u1160" <= character <= "\u11ff"


def place_words(tokenizer: Tokenizer, documents: Sequence[Sequence[str]]) -> list[list[Ids]]:
    """The ids of each word of lists of words, encoded as one text with a space between two words.

    A word has the tokens from the first one that begins in it to where the next word's begin; one that the tokenizer
    leaves out, or puts into the token of another, has none.
    """
    known = [[word.strip() for word in words] for words in documents]
    placed = place_tokens(tokenizer, [" ".join(words) for words in known])
    return [split_words(words, tokens) for words, tokens in zip(known, placed, strict=True)]


def split_words(words: Sequence[str], tokens: PlacedTokens) -> list[Ids]:
    """The ids of each word of a text that is made of them."""
    starts = np.cumsum([0, *(len(word) + 1 for word in words)])[:-1]
    written = tokens.begins < tokens.ends  # white space alone, or bytes within a character, begin no word
    of_word = np.searchsorted(starts, tokens.begins, side="right") - 1
    first = np.searchsorted(np.maximum.accumulate(np.where(written, of_word, 0)), np.arange(len(words)), side="left")
    # what stands for the beginning of a text, such as a space, belongs to its first word; an empty one has no token
    filled = [number for number, word in enumerate(words) if word]
    if not filled:
        return [tokens.ids[:0] for _ in words]
    first[: filled[0] + 1] = 0
    return np.split(tokens.ids, first[1:])[: len(words)]


def tokens_of(tokens: PlacedTokens, start: int, stop: int) -> tuple[int, int]:
    """The first token that stands for some of the characters start:stop of a text, and the one behind the last."""
    last = len(tokens.ids) - 1
    first = min(int(np.searchsorted(tokens.ends, start, side="right")), last)
    return first, max(first + 1, int(np.searchsorted(tokens.begins, stop, side="left")))
