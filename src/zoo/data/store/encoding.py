"""Tokenization of texts of any length, in bounded memory."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from zoo.data.ids import Ids
from zoo.data.tokenizers.tokenizer import Tokenizer

CHARACTERS = 1 << 20  # characters passed to the tokenizer at once; it needs a few hundred bytes per token
LONG = 1 << 18  # characters; a longer text is encoded in pieces
# Characters on each side of a possible cut. A cut is accepted if encoding the two sides together and apart gives the
# same ids for every size. One size is not enough: in periodic text (`abcabc…`) a token may end at the cut by chance.
CUT_CONTEXTS = (200, 199, 197, 193, 185, 169, 137)
TRIES = 20  # possible cuts per mark
Reader = Callable[[Sequence[str]], list[Ids]]
CUT_MARKS = (("\n", 1), (" ", 0), ("\u3002", 1))  # a mark, and how many characters after its start the cut is


def encode(documents: Sequence[str], split: Callable[[str], list[str]], tokenizer: Tokenizer) -> Iterator[list[Ids]]:
    """Yield the ids of each document's units, one list per document; units without tokens are left out.

    Args:
        split: divides a document into units, such as its sentences.
    """
    units = [split(document) if document.strip() else [] for document in documents]
    encoded = encode_texts([unit for document in units for unit in document], tokenizer)
    for document in units:
        ids = [next(encoded) for _ in document]
        yield [unit for unit in ids if len(unit)]


def encode_texts(texts: Sequence[str], tokenizer: Tokenizer) -> Iterator[Ids]:
    """Yield the ids of each text; short texts are encoded in batches, long ones in pieces."""
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
    """The ids of a long text as if it were encoded at once; encodes pieces, which end at line ends if possible."""
    ids: list[Ids] = []
    read: Reader = tokenizer.encode
    start = 0
    while start < len(text):
        stop, following = find_cut(text, start, tokenizer)
        ids += read([text[start:stop]])
        start, read = stop, following
    return np.concatenate(ids)


def find_cut(text: str, start: int, tokenizer: Tokenizer) -> tuple[int, Reader]:
    """Find where the piece that begins at `start` ends: at a cut that does not change the ids, else at the text's end.

    A tokenizer may encode the beginning of a text differently from the middle. So the characters around a possible cut
    are encoded together and apart, and the ids compared.

    Returns:
        The end of the piece, and the encoder of the next piece: as a text of its own, or as a continuation.
    """
    readers: list[Reader] = [tokenizer.encode]
    if tokenizer.continuation_backend is not None:
        readers.append(tokenizer.encode_continuation)
    if len(text) - start > LONG:
        for cut in cut_candidates(text, start + LONG // 2, start + LONG):
            if text[cut - 1 : cut + 1].isspace():  # one token may span several white space characters
                continue
            sides = [(text[max(start, cut - size) : cut], text[cut : cut + size]) for size in CUT_CONTEXTS]
            whole = tokenizer.encode([text for left, right in sides for text in (left + right, left)])
            for read in readers:
                if all(map(keeps_ids, whole[::2], whole[1::2], read([right for _, right in sides]))):
                    return cut, read
    return len(text), tokenizer.encode


def keeps_ids(together: Ids, left: Ids, right: Ids) -> bool:
    """Whether encoding two sides of a cut apart gives the ids of encoding them together."""
    return np.array_equal(together, np.concatenate([left, right]))


def cut_candidates(text: str, first: int, last: int) -> Iterator[int]:
    """Yield possible cuts, best first: after line ends, before spaces, after ideographic full stops, then anywhere."""
    for mark, behind in CUT_MARKS:
        at = last
        for _ in range(TRIES):
            if (at := text.rfind(mark, first, at)) < 0:
                break
            yield at + behind
    yield from range(last, max(first, last - TRIES), -1)
