"""Readable labels of tokens."""

import json
from collections.abc import Sequence

from zoo.data.tokenizers.recipes.recipe import SPACE
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.data.tokenizers.word_marks import word_marks

CONTINUES = "·"
VISIBLE = str.maketrans({" ": "␣", SPACE: "␣", "\n": "↵", "\r": "␍", "\t": "⇥"})
NO_TEXT = "\ufffd"  # the replacement character: bytes that are not a whole character


def token_labels(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """The label of each token: special tokens as they are spelled, other tokens as text.

    A piece that continues a word has a dot before it, unless white space has tokens of its own, which separate the
    words. White space is shown by symbols, and a part of a character as the vocabulary spells its bytes.
    """
    special = set(tokenizer.backend.get_added_tokens_decoder())
    prefix, starts = word_marks(json.loads(tokenizer.backend.to_str()))
    apart = starts is not None and starts[0].isspace()
    continues, labels, inside = None if apart else tokenizer.roles.continues, [], False
    for i in ids:
        if i in special or i >= tokenizer.vocab_size:
            labels.append(tokenizer.spell(i))
            inside = False
            continue
        later = continues is not None and bool(continues[i])
        text = text_of(tokenizer, i, prefix if later else None)
        labels.append(CONTINUES + text if later and inside and text[0].isalnum() else text)
        inside = True
    return labels


def text_of(tokenizer: Tokenizer, token_id: int, prefix: str | None) -> str:
    """The text of an ordinary token, without the vocabulary's word marks; never empty."""
    spelled = tokenizer.spell(token_id)
    text = spelled.removeprefix(prefix) if prefix else tokenizer.backend.decode([token_id])
    if NO_TEXT in text:
        return spelled
    return text.strip() or (text or spelled).translate(VISIBLE)
