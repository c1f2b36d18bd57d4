"""Texts that a tokenizer is trained on: all of train, or a sample of bounded size that hashes choose."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from string import punctuation
from typing import Any
from unicodedata import category

from zoo.data.ids import WORDS
from zoo.data.sources.checking import place_of, text_columns
from zoo.data.sources.rows import SplitRows

SAMPLE = 1 << 27  # characters
ROWS = 1 << 21  # different ones of a sample: each takes some 400 bytes beside its characters
WORDS_SIZE = 6 << 20  # bytes of its different words: a trainer takes some hundred for each of them
BASIC = 0x10000  # code points of the basic plane; with those beyond it a pattern takes eight times as long
LONG = 1 << 20  # characters; a longer text is sampled in pieces
PIECES = 64  # that a sample has at least, where texts are long
Pieces = tuple[tuple[str, ...], ...]  # by column, the texts of a row


@dataclass(frozen=True)
class Sample:
    """Texts of a split.

    Args:
        texts: column after column.
        characters: how many they have together.
        seen: how many the split has.
    """

    texts: list[str]
    characters: int
    seen: int


class DistinctWords:
    """The words of some texts, each once: Korean has four times as many as English in a tenth of the text."""

    def __init__(self, every: Iterable[Pieces] = ()) -> None:
        self.seen: set[str] = set()
        self.size = 0  # bytes
        for texts in every:
            self.add(texts)

    def add(self, texts: Pieces) -> None:
        """Take those of one more row."""
        for text in (text for column in texts for text in column):
            new = set(word_pattern().findall(text)) - self.seen
            self.seen |= new
            self.size += sum(len(word.encode("utf-8", "surrogatepass")) for word in new)


@cache
def word_pattern() -> re.Pattern[str]:
    """What trainers take for a word, roughly: what stands between spaces and punctuation.

    `\\w+` would cut at marks, of which the vowels of Hindi and Thai are written, and at symbols.
    """
    marks = {chr(point) for point in range(BASIC) if category(chr(point)).startswith("P")}
    inside = re.escape("".join(sorted(marks | set(punctuation))))
    return re.compile(rf"[^\s{inside}]+|[{inside}]+")


def sample_texts(rows: SplitRows, most: int = SAMPLE) -> Sample:
    """The texts of a split, or those whose hash is smallest: below the largest half, quarter … that fits into memory.

    Neither the order of the rows nor who reads them changes the choice, and more rows leave a part of the old choice.

    Args:
        most: characters.
    """
    kept: list[tuple[float, int, Pieces]] = []
    known: dict[float, tuple[float, int, Pieces]] = {}  # equal rows are kept as one
    words, share, size, seen = DistinctWords(), 1.0, 0, 0
    for texts in pieces_of(rows, max(1, min(LONG, most // PIECES))):
        length = sum(len(text) for column in texts for text in column)
        seen += length
        at = place_of(f"sample {texts}")
        if at >= share or not length:
            continue
        if at not in known:
            words.add(texts)
        kept.append(known.setdefault(at, (at, length, texts)))
        size += length
        while size > most or len(known) > ROWS or words.size > WORDS_SIZE:
            share /= 2
            kept = [one for one in kept if one[0] < share]
            known = {at: one for at, one in known.items() if at < share}
            size = sum(length for _, length, _ in kept)
            words = DistinctWords(texts for _, _, texts in known.values())
    columns = zip(*(texts for _, _, texts in kept), strict=True)
    return Sample([text for column in columns for texts in column for text in texts], size, seen)


def pieces_of(rows: SplitRows, most: int) -> Iterator[Pieces]:
    """The texts of each row by column; a long text alone in pieces, which end with a line where they can.

    Args:
        most: characters of a piece.
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
    """The texts of one value; words stand together as in a text."""
    if isinstance(value, str):
        return (value,)
    return (" ".join(value),) if name == WORDS else tuple(value)
