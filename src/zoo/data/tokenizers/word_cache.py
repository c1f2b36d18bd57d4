"""Encodes texts through a cache of their words' ids, which takes a tenth of the time of encoding them."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, pairwise
from string import punctuation

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as Backend

from zoo.data.ids import Ids
from zoo.data.tokenizers.backend import encode_plainly

CHARACTERS = 1 << 20  # of the texts that are looked up together; a longer text is encoded without the cache
MOST = 1 << 21  # characters of the words in a generation: some 300,000 words, 60 MB with their ids
MULTIPLIER = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2^64
WHITE, PLAIN, MARK = 1, 2, 4  # kinds of characters: white space, ASCII letters and digits, `MARKS`
# Not <, = and >: a combining character may follow. = and U+0338 compose to one that BERT's tokenizer reads as a letter.
MARKS = sorted(set(punctuation) - set("<=>"))
TOGETHER = 4096  # words encoded in one call
Places = NDArray[np.int64]


class WordCache:
    """Encodes texts through a cache of their words' ids, for a separable tokenizer.

    Words are cached in two generations. When the young generation is full, it replaces the old one, which is dropped. A
    word that occurs again moves to the young generation, so frequent words stay.

    Args:
        backend: the tokenizer; it encodes a role's spelling as ordinary text.
        at_marks: whether words are also cut at punctuation and line ends, which halves the number of distinct words.
    """

    def __init__(self, backend: Backend, at_marks: bool) -> None:
        self.backend, self.at_marks = backend, at_marks
        self.young: dict[str, bytes] = {}
        self.old: dict[str, bytes] = {}
        self.characters = 0

    def encode(self, texts: Sequence[str]) -> Iterator[Ids]:
        """Yield the ids of each text, as if it were encoded whole."""
        start = characters = 0
        for number, text in enumerate(texts):
            characters += len(text)
            if characters > CHARACTERS and number > start:
                yield from self.encode_together(texts[start:number])
                start, characters = number, len(text)
        if start < len(texts):
            yield from self.encode_together(texts[start:])

    def encode_together(self, texts: Sequence[str]) -> list[Ids]:
        """The ids of each text of a batch."""
        joined = "".join(texts)
        if len(joined) > CHARACTERS:
            return self.encode_whole(texts)
        points = np.frombuffer(joined.encode("utf-32-le"), np.uint32)
        borders = np.fromiter(accumulate(map(len, texts), initial=0), np.int64, len(texts) + 1)
        begins = find_words(points, borders, self.at_marks)
        ends = np.append(begins[1:], len(points))
        _, chosen, same = np.unique(hash_words(points, begins, ends), return_index=True, return_inverse=True)
        if not are_equal(points, begins, ends, chosen[same]):  # two different words have the same hash
            return self.encode_whole(texts)
        words = [joined[begin:end] for begin, end in zip(begins[chosen].tolist(), ends[chosen].tolist(), strict=True)]
        known = self.look_up(words)
        counts = np.fromiter(map(len, known), np.int64, len(known)) // np.int32().itemsize
        ids = np.frombuffer(b"".join(known), np.int32).astype(np.int64)
        places, offsets = expand_ranges(np.cumsum(counts) - counts, counts, same)
        stops = offsets[np.searchsorted(begins, borders)].tolist()
        found = ids[places]
        return [found[start:stop] for start, stop in pairwise(stops)]

    def encode_whole(self, texts: Sequence[str]) -> list[Ids]:
        return encode_plainly(self.backend, texts)

    def look_up(self, words: list[str]) -> list[bytes]:
        """The ids of each word; words in neither generation are encoded."""
        young, old = self.young, self.old  # another thread may replace them in the meantime
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
        return known  # type: ignore[return-value]  # no None is left

    def encode_words(self, words: Sequence[str]) -> Iterator[bytes]:
        """The ids of each word as int32; encoding thousands of words in one call is faster than one by one."""
        parts = [words[start : start + TOGETHER] for start in range(0, len(words), TOGETHER)]
        encodings = self.backend.encode_batch(parts, is_pretokenized=True, add_special_tokens=False)
        for part, encoding in zip(parts, encodings, strict=True):
            ids = np.array(encoding.ids, np.int32)
            # a word that the normalizer empties has no id
            ends = np.searchsorted(np.array(encoding.word_ids, np.int64), np.arange(len(part) + 1)) * ids.itemsize
            stored, borders = ids.tobytes(), ends.tolist()
            yield from (stored[begin:end] for begin, end in pairwise(borders))


@cache
def character_kinds() -> NDArray[np.uint8]:
    """The kind of each code point: WHITE, PLAIN, MARK or 0; decides where words are cut."""
    found = np.zeros(0x110000, np.uint8)
    found[[point for point in range(ord("\u3000") + 1) if chr(point).isspace()]] = WHITE  # U+3000 is the last one
    found[[ord(mark) for mark in MARKS]] = MARK
    found[[point for point in range(128) if chr(point).isalnum()]] = PLAIN
    return found


def find_words(points: NDArray[np.uint32], borders: Places, at_marks: bool) -> Places:
    """Where the words of some texts begin: at spaces, and at some punctuation.

    A word begins at a space after a character that is not whitespace. With `at_marks`, it also begins at punctuation or
    a line end after a plain (ASCII) letter or digit; and at a line end between a character that is not whitespace and a
    plain one, the plain one begins a word.

    Args:
        points: the code points of all texts, concatenated.
        borders: where each text begins, and where the last one ends.
    """
    kind = character_kinds()[points]
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
    """1, base, base^2, … modulo 2^64, for every position in a batch of texts."""
    factors = np.full(CHARACTERS, base, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)


def clear_tables() -> None:
    """Free the tables that all caches share, 18 MB; the next batch of texts computes them again."""
    character_kinds.cache_clear()
    powers.cache_clear()


def hash_words(points: NDArray[np.uint32], begins: Places, ends: Places) -> NDArray[np.uint64]:
    """A polynomial hash of each word's characters modulo 2^64, independent of the word's position."""
    sums = np.zeros(len(points) + 1, np.uint64)
    np.cumsum((points + np.uint64(1)) * powers(MULTIPLIER)[: len(points)], out=sums[1:])
    # each word's sum, divided by the power at its first position, so that equal words have equal hashes anywhere
    return (sums[ends] - sums[begins]) * powers(pow(MULTIPLIER, -1, 1 << 64))[begins]


def are_equal(points: NDArray[np.uint32], begins: Places, ends: Places, others: Places) -> bool:
    """Whether each word equals the word that represents its hash."""
    lengths = ends - begins
    if not np.array_equal(lengths, lengths[others]):
        return False
    shifts = np.repeat(begins[others] - begins, lengths)
    return np.array_equal(points[np.arange(len(points)) + shifts], points)


def expand_ranges(starts: Places, counts: Places, chosen: Places) -> tuple[Places, Places]:
    """The indices of the items of the chosen ranges, concatenated, and the offset of each range in the result."""
    each = counts[chosen]
    offsets = np.zeros(len(each) + 1, np.int64)
    np.cumsum(each, out=offsets[1:])
    return np.arange(offsets[-1]) + np.repeat(starts[chosen] - offsets[:-1], each), offsets
