"""Texts become token ids, however long they are, in bounded memory."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from zoo.data.ids import Ids
from zoo.data.tokenizers.tokenizer import Tokenizer

CHARACTERS = 1 << 20  # of the texts that the tokenizer is given at once; it needs some hundred bytes for each token
LONG = 1 << 18  # characters; a longer text is encoded in pieces
# characters on each side of a place between two pieces that must not change each other's ids; several numbers of them,
# since tokens of several repeats of `abc` may end at a place by chance, seen from one number of repeats
SEAMS_SEEN = (200, 199, 197, 193, 185, 169, 137)
TRIES = 20
Reader = Callable[[Sequence[str]], list[Ids]]
SEAMS = (("\n", 1), (" ", 0), ("\u3002", 1))  # a mark, and whether a piece ends before it or behind it


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
    """The ids of a long text, as if it were encoded at once: in pieces, with a line's end if they can."""
    ids: list[Ids] = []
    read: Reader = tokenizer.encode
    start = 0
    while start < len(text):
        stop, following = find_seam(text, start, tokenizer)
        ids += read([text[start:stop]])
        start, read = stop, following
    return np.concatenate(ids)


def find_seam(text: str, start: int, tokenizer: Tokenizer) -> tuple[int, Reader]:
    """Where the piece that begins at `start` ends: at a place that parts ids; the text's end where none does.

    A tokenizer may write the beginning of a text in another way than a line's. So what stands on both sides of a seam
    is encoded together and apart.

    Returns:
        The place, and what reads the piece behind it: as a text of its own, or as one that goes on.
    """
    readers: list[Reader] = [tokenizer.encode]
    if tokenizer.reader_of_rest is not None:
        readers.append(tokenizer.encode_rest)
    if len(text) - start > LONG:
        for seam in places(text, start + LONG // 2, start + LONG):
            if text[seam - 1 : seam + 1].isspace():  # a long run of white space may be tokens of several
                continue
            sides = [(text[max(start, seam - size) : seam], text[seam : seam + size]) for size in SEAMS_SEEN]
            whole = tokenizer.encode([text for left, right in sides for text in (left + right, left)])
            for read in readers:
                if all(map(parts_ids, whole[::2], whole[1::2], read([right for _, right in sides]))):
                    return seam, read
    return len(text), tokenizer.encode


def parts_ids(together: Ids, left: Ids, right: Ids) -> bool:
    return np.array_equal(together, np.concatenate([left, right]))


def places(text: str, first: int, last: int) -> Iterator[int]:
    """Where a text may be cut: behind lines, before spaces, behind full stops without one, else anywhere."""
    for mark, behind in SEAMS:
        at = last
        for _ in range(TRIES):
            if (at := text.rfind(mark, first, at)) < 0:
                break
            yield at + behind
    yield from range(last, max(first, last - TRIES), -1)
