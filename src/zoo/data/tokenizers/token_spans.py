"""Token ids with the characters that they stand for, to find the tokens of a word or an answer."""

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zoo.data.ids import Ids
from zoo.data.tokenizers.tokenizer import Tokenizer


class TokenSpans(NamedTuple):
    """The ids of a text, and the characters begin:end of each token.

    White space at both ends of a token is left out; combining marks that a normalizer composes or strips are included.
    """

    ids: Ids
    begins: Ids
    ends: Ids


def encode_with_spans(tokenizer: Tokenizer, texts: Sequence[str]) -> list[TokenSpans]:
    """The ids of each text, as from `Tokenizer.encode`, with their characters.

    Raises:
        ValueError: a text has a lone surrogate.
    """
    found = []
    for text, (ids, offsets) in zip(texts, tokenizer.encode_with_offsets(texts), strict=True):
        begins, ends = offsets.T
        blank = np.array([character.isspace() for character in text] + [False])
        while (inside := blank[begins] & (begins < ends)).any():
            begins = begins + inside
        while (inside := blank[ends - 1] & (begins < ends)).any():
            ends = ends - inside
        if not text.isascii():
            ends = with_marks(text, begins, ends)
        found.append(TokenSpans(ids, begins, ends))
    return found


def with_marks(text: str, begins: Ids, ends: Ids) -> Ids:
    """The ends of tokens, moved past the combining marks after them that belong to no token.

    A normalizer that composes characters or strips accents reports the offset of the first character only.
    """
    marks, following = np.array([is_mark(character) for character in text] + [False]), np.append(begins[1:], len(text))
    while (inside := marks[ends] & (begins < ends) & (ends < following)).any():
        ends = ends + inside
    return ends


def is_mark(character: str) -> bool:
    """Whether a character combines with the one before it: an accent, or a vowel or last consonant of Hangul."""
    return unicodedata.category(character).startswith("M") or "\u1160" <= character <= "\u11ff"


def encode_word_lists(tokenizer: Tokenizer, documents: Sequence[Sequence[str]]) -> list[list[Ids]]:
    """The ids of each word in lists of words, each list encoded as one text with spaces between the words.

    A word has the tokens from the first one that begins in it up to those of the next word; a word that the tokenizer
    drops, or merges into another's token, has none.
    """
    known = [[word.strip() for word in words] for words in documents]
    placed = encode_with_spans(tokenizer, [" ".join(words) for words in known])
    return [split_words(words, tokens) for words, tokens in zip(known, placed, strict=True)]


def split_words(words: Sequence[str], tokens: TokenSpans) -> list[Ids]:
    """The ids of each word, given the tokens of the text that joins the words."""
    starts = np.cumsum([0, *(len(word) + 1 for word in words)])[:-1]
    written = tokens.begins < tokens.ends  # tokens of only white space, or of bytes within a character, begin no word
    of_word = np.searchsorted(starts, tokens.begins, side="right") - 1
    # the first token of each word; a token without characters of its own counts for the word before it
    first = np.searchsorted(np.maximum.accumulate(np.where(written, of_word, 0)), np.arange(len(words)), side="left")
    # tokens for the beginning of a text, such as a space, belong to its first word that is not empty
    filled = [number for number, word in enumerate(words) if word]
    if not filled:
        return [tokens.ids[:0] for _ in words]
    first[: filled[0] + 1] = 0
    return np.split(tokens.ids, first[1:])[: len(words)]


def tokens_of(tokens: TokenSpans, start: int, stop: int) -> tuple[int, int]:
    """The first token that covers some of the characters start:stop of a text, and the one after the last."""
    last = len(tokens.ids) - 1
    first = min(int(np.searchsorted(tokens.ends, start, side="right")), last)
    return first, max(first + 1, int(np.searchsorted(tokens.begins, stop, side="left")))
