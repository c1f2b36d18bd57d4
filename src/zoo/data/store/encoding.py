"""Texts become token ids, however long they are, in bounded memory."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from zoo.data.ids import Ids
from zoo.data.tokenizers.tokenizer import Tokenizer

CHARACTERS = 1 << 20  # of the texts that the tokenizer is given at once; it needs some hundred bytes for each token
LONG = 1 << 18  # characters; a longer text is encoded in pieces
SEAM = 200  # characters on each side of a place between two pieces that must not change each other's ids
TRIES = 20


def encode(documents: Sequence[str], split: Callable[[str], list[str]], tokenizer: Tokenizer) -> Iterator[list[Ids]]:
    """The ids of each document's units; units without a token are left out."""
    units = [split(document) if document.strip() else [] for document in documents]
    encoded = encode_texts([unit for document in units for unit in document], tokenizer)
    for document in units:
        ids = [next(encoded) for _ in document]
        yield [unit for unit in ids if len(unit)]


def encode_texts(texts: Sequence[str], tokenizer: Tokenizer) -> Iterator[Ids]:
    """The ids of each text."""
    start = characters = 0
    for number, text in enumerate(texts):
        characters += len(text)
        if characters > CHARACTERS or len(text) > LONG:
            yield from tokenizer.encode(texts[start:number]) if number > start else ()
            start, characters = number, len(text)
        if len(text) > LONG:
            yield encode_long(text, tokenizer)
            start, characters = number + 1, 0
    if start < len(texts):
        yield from tokenizer.encode(texts[start:])


def encode_long(text: str, tokenizer: Tokenizer) -> Ids:
    """The ids of a long text, as if it were encoded at once: in pieces that end with a line."""
    ids: list[Ids] = []
    start = 0
    while start < len(text):
        stop = find_seam(text, start, tokenizer)
        ids += tokenizer.encode([text[start:stop]])
        start = stop
    return np.concatenate(ids)


def find_seam(text: str, start: int, tokenizer: Tokenizer) -> int:
    """Where the piece that begins at `start` ends: behind a line whose end parts ids; the text's end where none does.

    A tokenizer may write the beginning of a text in another way than a line's. So what stands on both sides of a seam
    is encoded together and apart.
    """
    if len(text) - start <= LONG:
        return len(text)
    seam = start + LONG
    for _ in range(TRIES):
        seam = text.rfind("\n", start + LONG // 2, seam - 1) + 1
        if seam == 0:
            break
        if seam >= len(text) or text[seam].isspace():  # a long run of lines may be tokens of several
            continue
        left, right = text[max(start, seam - SEAM) : seam], text[seam : seam + SEAM]
        together, first, second = tokenizer.encode([left + right, left, right])
        if np.array_equal(together, np.concatenate([first, second])):
            return seam
    return len(text)
