"""`tokenizer.add`: domain words that become single tokens."""

import logging
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.registry import check
from zoo.wording import first_few

ADD = "add"
logger = logging.getLogger(__name__)
# scripts in which a word is followed by its particles, or by the next word, without a space
JOINED = ("HANGUL", "CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")


def words_to_add(settings: Mapping[str, Any] | None) -> list[str]:
    """The words that a task's `tokenizer` adds.

    Raises:
        ValueError: they are not a list of words.
    """
    place = f"task.tokenizer.{ADD}"
    words: list[str] = check((settings or {}).get(ADD, []), list[str], place)
    for word in words:
        if not word or word.split() != [word]:
            raise ValueError(f"{place}: a word must not contain spaces, got {word!r}")
    return list(dict.fromkeys(words))


def add_words(tokenizer: Tokenizer, words: Sequence[str]) -> list[str]:
    """Make each word a single token; returns those that are new, each of which needs a new row of the embedding.

    A word is matched between word boundaries; in a script that joins words, such as Hangul, also before a particle. If
    the tokenizer decomposes Hangul into letters, a syllable without a final consonant is a prefix of others, so a word
    that ends with one is matched between word boundaries only.

    Raises:
        ValueError: a word is a special token, such as `[MASK]`, which texts cannot contain.
    """
    unknown = tokenizer.roles.unk
    special = tokenizer.special_tokens
    for word in words:
        if word in special:
            raise ValueError(f"task.tokenizer.{ADD}: {word!r} is a special token of the tokenizer; leave it out")
    read = zip(words, tokenizer.encode(words), strict=True)
    new = [word for word, ids in read if len(ids) != 1 or ids[0] == unknown]
    begin_others = [word for word in new if is_joined(word) and ends_open(word, tokenizer)]
    if begin_others:
        said = "task.tokenizer.%s: this tokenizer splits Hangul into letters and misses these words before a particle: "
        logger.warning(said + "%s; normalization: nfc keeps syllables whole", ADD, first_few(begin_others))
    alone = {word: not is_joined(word) or word in begin_others for word in new}
    tokenizer.backend.add_tokens([AddedToken(word, single_word=alone[word], normalized=True) for word in new])
    tokenizer.make_special(())
    return new


def is_joined(word: str) -> bool:
    """Whether a word's script allows more letters after it without a space."""
    return unicodedata.name(word[-1], "").startswith(JOINED)


def ends_open(word: str, tokenizer: Tokenizer) -> bool:
    """Whether a word, normalized, ends with a Hangul vowel letter, which a final consonant may follow."""
    normalizer = tokenizer.backend.normalizer
    spelled = word if normalizer is None else normalizer.normalize_str(word)
    return unicodedata.name(spelled[-1:] or " ").startswith("HANGUL JUNGSEONG")


def pieces_of_added(before: Tokenizer, after: Tokenizer) -> dict[int, list[int]]:
    """The id of each added word -> the ids that encoded it before; roles and sentinels are left out."""
    special = {i for i, token in after.backend.get_added_tokens_decoder().items() if token.special}
    added = [i for i in range(before.vocab_size, after.vocab_size) if i not in special]
    pieces = before.encode([after.spell(i) for i in added])
    return {i: ids.tolist() for i, ids in zip(added, pieces, strict=True) if len(ids)}
