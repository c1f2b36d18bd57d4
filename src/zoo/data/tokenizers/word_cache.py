"""Texts to ids by way of their words: each is encoded once, and then looked up, which takes a tenth of the time."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from string import punctuation

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as Backend

from zoo.data.ids import Ids
from zoo.data.tokenizers.backend import encode_plainly

CHARACTERS = 1 << 20  # of the texts that are looked up together; a longer text is encoded whole
MOST = 1 << 21  # characters of the words in a generation, some 300,000: with their ids 60 MB
MULTIPLIER = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2^64
WHITE, PLAIN, MARK = 1, 2, 4
# A character may join the others behind it: = and U+0338 are one, which BERT's tokenizer takes for a letter.
MARKS = sorted(set(punctuation) - set("<=>"))
TOGETHER = 4096  # words of one encoding
Places = NDArray[np.int64]


class WordCache:
    """Texts to ids by way of their words, for a tokenizer that is separable.

    Words live in two generations. When the younger one is full, it becomes the older one, and that is forgotten. A word
    that is met again moves to the younger one; so frequent words stay.

    Args:
        backend: the tokenizer; it takes a role's spelling for ordinary text.
        at_marks: whether words may be cut at punctuation and at lines too, which leaves half as many to encode.
    """

    def __init__(self, backend: Backend, at_marks: bool) -> None:
        self.backend, self.at_marks = backend, at_marks
        self.young: dict[str, bytes] = {}
        self.old: dict[str, bytes] = {}
        self.characters = 0

    def encode(self, texts: Sequence[str]) -> Iterator[Ids]:
        """The ids of each text, as if it were encoded whole."""
        start = characters = 0
        for number, text in enumerate(texts):
            characters += len(text)
            if characters > CHARACTERS and number > start:
                yield from self.encode_together(texts[start:number])
                start, characters = number, len(text)
        if start < len(texts):
            yield from self.encode_together(texts[start:])

    def encode_together(self, texts: Sequence[str]) -> list[Ids]:
        """The ids of each of some texts."""
        joined = "".join(texts)
        if len(joined) > CHARACTERS:
            return self.encode_whole(texts)
        points = np.frombuffer(joined.encode("utf-32-le"), np.uint32)
        borders = np.fromiter(accumulate(map(len, texts), initial=0), np.int64, len(texts) + 1)
        begins = find_words(points, borders, self.at_marks)
        ends = np.append(begins[1:], len(points))
        _, chosen, same = np.unique(hash_words(points, begins, ends), return_index=True, return_inverse=True)
        if not are_equal(points, begins, ends, chosen[same]):  # two words share a hash
            return self.encode_whole(texts)
        words = [joined[begin:end] for begin, end in zip(begins[chosen].tolist(), ends[chosen].tolist(), strict=True)]
        known = self.look_up(words)
        counts = np.fromiter(map(len, known), np.int64, len(known)) // np.int32().itemsize
        ids = np.frombuffer(b"".join(known), np.int32).astype(np.int64)
        places, offsets = spread(np.cumsum(counts) - counts, counts, same)
        stops = offsets[np.searchsorted(begins, borders)].tolist()
        found = ids[places]
        return [found[start:stop] for start, stop in zip(stops, stops[1:], strict=False)]

    def encode_whole(self, texts: Sequence[str]) -> list[Ids]:
        return encode_plainly(self.backend, texts)

    def look_up(self, words: list[str]) -> list[bytes]:
        """The ids of each word; words that are in neither generation are encoded."""
        young, old = self.young, self.old  # another thread may begin the next generation meanwhile
        known = list(map(young.get, words))
        lacking = [place for place, ids in enumerate(known) if ids is None]
        new = [word for place in lacking if (word := words[place]) not in old]
        fresh = dict(zip(new, self.encode_words(new), strict=True))
        for place in lacking:
            word = words[place]
            known[place] = young[word] = fresh[word] if word in fresh else old[word]
            self.characters += len(word)
        if self.characters > MOST:
            self.young, self.old, self.characters = {}, young, 0
        return known  # type: ignore[return-value]  # none is lacking

    def encode_words(self, words: Sequence[str]) -> Iterator[bytes]:
        """The ids of each word as int32; an encoding for thousands of words takes less time than one for each."""
        parts = [words[start : start + TOGETHER] for start in range(0, len(words), TOGETHER)]
        encodings = self.backend.encode_batch(parts, is_pretokenized=True, add_special_tokens=False)
        for part, encoding in zip(parts, encodings, strict=True):
            ids = np.array(encoding.ids, np.int32)
            # a word that a normalizer empties has no id
            ends = np.searchsorted(np.array(encoding.word_ids, np.int64), np.arange(len(part) + 1)) * ids.itemsize
            stored, borders = ids.tobytes(), ends.tolist()
            yield from (stored[begin:end] for begin, end in zip(borders, borders[1:], strict=False))


@cache
def kinds() -> NDArray[np.uint8]:
    """By code point, what a character is at a border of words."""
    found = np.zeros(0x110000, np.uint8)
    found[[point for point in range(ord("\u3000") + 1) if chr(point).isspace()]] = WHITE  # none is behind it
    found[[ord(mark) for mark in MARKS]] = MARK
    found[[point for point in range(128) if chr(point).isalnum()]] = PLAIN
    return found


def find_words(points: NDArray[np.uint32], borders: Places, at_marks: bool) -> Places:
    """Where the words of some texts begin: at spaces, and at some marks.

    A word begins at a space behind something else than whitespace. With `at_marks`, a plain letter or digit and the
    mark or the line's end behind it are apart too, and so are a line's end and the plain letter of the next line.

    Args:
        points: the code points of all texts, one after another.
        borders: where each text begins, and where the last one ends.
    """
    kind = kinds()[points]
    white, begins = kind == WHITE, np.zeros(len(points) + 1, np.bool_)
    begins[1:-1] = (points[1:] == ord(" ")) & ~white[:-1]
    if at_marks:
        plain, line = kind == PLAIN, points == ord("\n")
        begins[1:-1] |= plain[:-1] & ((kind[1:] == MARK) | line[1:])
        begins[2:-1] |= ~white[:-2] & line[1:-1] & plain[2:]
    begins[borders] = True
    return np.flatnonzero(begins[:-1])


@cache
def powers(base: int) -> NDArray[np.uint64]:
    """1, base, base^2 and so on modulo 2^64, for each place of the texts that are looked up together."""
    factors = np.full(CHARACTERS, base, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)


def hash_words(points: NDArray[np.uint32], begins: Places, ends: Places) -> NDArray[np.uint64]:
    """A polynomial of each word's characters modulo 2^64, wherever the word stands."""
    sums = np.zeros(len(points) + 1, np.uint64)
    np.cumsum((points + np.uint64(1)) * powers(MULTIPLIER)[: len(points)], out=sums[1:])
    return (sums[ends] - sums[begins]) * powers(pow(MULTIPLIER, -1, 1 << 64))[begins]


def are_equal(points: NDArray[np.uint32], begins: Places, ends: Places, others: Places) -> bool:
    """Whether each word is spelled as the one that stands for it."""
    lengths = ends - begins
    if not np.array_equal(lengths, lengths[others]):
        return False
    shifts = np.repeat(begins[others] - begins, lengths)
    return np.array_equal(points[np.arange(len(points)) + shifts], points)


def spread(starts: Places, counts: Places, chosen: Places) -> tuple[Places, Places]:
    """The places of items of stretches that are chosen one after another, and where each stretch then begins."""
    each = counts[chosen]
    offsets = np.zeros(len(each) + 1, np.int64)
    np.cumsum(each, out=offsets[1:])
    return np.arange(offsets[-1]) + np.repeat(starts[chosen] - offsets[:-1], each), offsets
