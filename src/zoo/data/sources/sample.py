"""The texts that a tokenizer is trained on: all of train, or a sample of bounded size that hashes select."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from string import punctuation
from typing import Any
from unicodedata import category

from zoo.data.ids import WORDS
from zoo.data.sources.checking import text_columns
from zoo.data.sources.rows import SplitRows
from zoo.data.sources.splits.holdout import hash_fraction

SAMPLE = 1 << 27  # characters
ROWS = 1 << 21  # distinct rows of a sample; each takes some 400 bytes besides its characters
WORDS_SIZE = 6 << 20  # bytes of its distinct words; a trainer takes a few hundred bytes for each of them
BASIC = 0x10000  # code points of the Basic Multilingual Plane; a pattern with those beyond it takes eight times as long
LONG = 1 << 20  # characters; a longer text is sampled in pieces
PIECES = 64  # the minimum in a sample of long texts
Pieces = tuple[tuple[str, ...], ...]  # per column, the texts of a row


@dataclass(frozen=True)
class Sample:
    """Texts of a split.

    Args:
        texts: column after column.
        characters: the number of characters of these texts.
        seen: the number of characters of the whole split.
    """

    texts: list[str]
    characters: int
    seen: int


class DistinctWords:
    """The distinct words of some texts. Their number bounds a sample, since it differs by language.

    A tenth as much Korean text has four times as many distinct words as English.
    """

    def __init__(self, every: Iterable[Pieces] = ()) -> None:
        self.seen: set[str] = set()
        self.size = 0  # bytes
        for texts in every:
            self.add(texts)

    def add(self, texts: Pieces) -> None:
        """Add the words of one row."""
        for text in (text for column in texts for text in column):
            new = set(word_pattern().findall(text)) - self.seen
            self.seen |= new
            self.size += sum(len(word.encode("utf-8", "surrogatepass")) for word in new)


@cache
def word_pattern() -> re.Pattern[str]:
    """A pattern for words, roughly as trainers cut them: what is between spaces and punctuation.

    `\\w+` would cut at combining marks, with which the vowels of Hindi and Thai are written, and at symbols.
    """
    marks = {chr(point) for point in range(BASIC) if category(chr(point)).startswith("P")}
    inside = re.escape("".join(sorted(marks | set(punctuation))))
    return re.compile(rf"[^\s{inside}]+|[{inside}]+")


def sample_texts(rows: SplitRows, most: int = SAMPLE) -> Sample:
    """The texts of a split; if they are too large, those with a hash below 1/2, 1/4, …: the first such limit that fits.

    The selection does not depend on the order of the rows or on who reads them. If rows are added, those of the earlier
    rows that are selected were selected before, too.

    Args:
        most: the maximum number of characters.
    """
    kept: list[tuple[float, int, Pieces]] = []
    known: dict[float, tuple[float, int, Pieces]] = {}  # hash -> its row; equal rows share one entry
    words, share, size, seen = DistinctWords(), 1.0, 0, 0
    for texts in pieces_of(rows, max(1, min(LONG, most // PIECES))):
        length = sum(len(text) for column in texts for text in column)
        seen += length
        at = hash_fraction(f"sample {texts}")
        if at >= share or not length:
            continue
        if at not in known:
            words.add(texts)
        kept.append(known.setdefault(at, (at, length, texts)))
        size += length
        while size > most or len(known) > ROWS or words.size > WORDS_SIZE:
            share /= 2  # halved, not fitted exactly: the selection must not depend on the order of the rows
            kept = [one for one in kept if one[0] < share]
            known = {at: one for at, one in known.items() if at < share}
            size = sum(length for _, length, _ in kept)
            words = DistinctWords(texts for _, _, texts in known.values())
    columns = zip(*(texts for _, _, texts in kept), strict=True)
    return Sample([text for column in columns for texts in column for text in texts], size, seen)


def pieces_of(rows: SplitRows, most: int) -> Iterator[Pieces]:
    """Yield the texts of each row by column; a row of one long text in pieces, which end at line ends if possible.

    Args:
        most: maximum characters of a piece.
    """
    names = text_columns(rows.inputs)
    for row in rows:
        texts = tuple(texts_of(name, row[name]) for name in names)
        if len(texts) != 1 or len(texts[0]) != 1 or len(texts[0][0]) <= most:
            yield texts
            continue
        ((text,),) = texts
        start = 0
        while start < len(text):
            stop = text.rfind("\n", start, start + most) + 1 if start + most < len(text) else len(text)
            stop = stop if stop > start else start + most
            yield ((text[start:stop],),)
            start = stop


def texts_of(name: str, value: Any) -> tuple[str, ...]:
    """The texts of one value; words are joined by spaces."""
    if isinstance(value, str):
        return (value,)
    return (" ".join(value),) if name == WORDS else tuple(value)
