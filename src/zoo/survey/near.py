"""Rows with almost the same text, in a sample of bounded size.

Source: Broder 1997, "On the resemblance and containment of documents"; MinHash and its index are datasketch's.
"""

from typing import Any
from zlib import crc32

import numpy as np

from zoo.data.sources.repeats import RowPlace

try:
    from datasketch import MinHash, MinHashLSH
except ImportError:  # the extra `duplicates` is not installed: then nothing is said of near duplicates
    MinHash = MinHashLSH = None

ROWS = 20_000  # of the sample
WORDS = 2000  # of a text that are looked at
LETTERS = 20  # a text that has more in a word does not part its words
SHINGLE = 5  # words, or twice as many characters where a text has few words
PERMUTATIONS = 64
ALIKE = 0.8  # share of all shingles that two texts have in common
SHOWN = 3
SPACE = ord(" ")
INSTALL = "near duplicates need datasketch, which is not installed: pip install 'zoo[duplicates]'"


class NearRepeats:
    """Which rows of a sample are almost alike; which rows are in it only their texts decide."""

    def __init__(self) -> None:
        self.share = 1.0
        self.seen = 0
        self.kept: dict[bytes, tuple[RowPlace, Any]] = {}
        # drawing permutations takes as long as a short text: all texts share these
        self.blank: Any = None if MinHash is None else MinHash(num_perm=PERMUTATIONS, hashfunc=int)

    def add(self, text: str, code: bytes, place: RowPlace) -> None:
        """One more row; of those with the same text the first is taken.

        Args:
            code: the text's `code_of`.
        """
        self.seen += 1
        if MinHash is None or at(code) >= self.share or code in self.kept:
            return
        words = text[: LETTERS * WORDS].split()
        if not words:
            return
        found = self.blank.copy()
        found.update_batch(shingles(words))
        self.kept[code] = (place, found)
        while len(self.kept) > ROWS:
            self.share /= 2
            self.kept = {code: one for code, one in self.kept.items() if at(code) < self.share}

    def find(self) -> dict[str, Any] | None:
        """How many rows of the sample have an almost equal one before them; None without datasketch."""
        if MinHash is None:
            return None
        index = MinHashLSH(threshold=ALIKE, num_perm=PERMUTATIONS)
        rows = across = 0
        shown: list[tuple[RowPlace, RowPlace, float]] = []
        for code, (place, signature) in self.kept.items():
            likely = ((other, signature.jaccard(self.kept[other][1])) for other in index.query(signature))
            alike = [(self.kept[other][0], value) for other, value in likely if value >= ALIKE]
            index.insert(code, signature)
            rows += bool(alike)
            across += any(other.split != place.split for other, _ in alike)
            if alike and len(shown) < SHOWN:
                shown.append((alike[0][0], place, float(alike[0][1])))
        return {"looked_at": len(self.kept), "rows": rows, "across_splits": across, "shown": shown}


def at(code: bytes) -> float:
    """A number from 0 to 1 that the text alone decides."""
    return int.from_bytes(code, "big") / 2**64


def shingles(words: list[str]) -> list[int]:
    """The hash of each run of some words; of some characters in a text that does not part its words."""
    words = words[:WORDS]
    text = " ".join(words)
    if len(text) > LETTERS * len(words) or len(words) < SHINGLE:
        size = 2 * SHINGLE
        text = text[: 5 * WORDS]
        return [crc32(text[i : i + size].encode()) for i in range(max(1, len(text) - size + 1))]
    laid = text.encode()
    ends = [*np.flatnonzero(np.frombuffer(laid, np.uint8) == SPACE).tolist(), len(laid)]
    starts = [0, *(end + 1 for end in ends)]
    return [crc32(laid[start:end]) for start, end in zip(starts, ends[SHINGLE - 1 :], strict=False)]
