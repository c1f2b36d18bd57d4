"""Rows with almost the same text, in a sample of bounded size.

Source: Broder 1997, "On the resemblance and containment of documents"; MinHash and its index are datasketch's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zoo.data.sources.repeated.repeats import RowPlace
from zoo.data.tokenizers.word_cache import MULTIPLIER, hash_words

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
        self.keep_few()

    def keep_few(self) -> None:
        """Halve the sample until it is as small as it must be."""
        while len(self.kept) > ROWS:
            self.share /= 2
            self.kept = {code: one for code, one in self.kept.items() if at(code) < self.share}

    def plain(self) -> dict[str, Any]:
        """All of it in plain values, which `join` takes."""
        kept = [[code.hex(), place, known.hashvalues.tolist()] for code, (place, known) in self.kept.items()]
        return {"share": self.share, "seen": self.seen, "kept": kept}

    def join(self, others: Sequence[Mapping[str, Any]]) -> None:
        """Take what others have seen of the same source: the sample is that of one who has seen all of it."""
        self.seen += sum(other["seen"] for other in others)
        self.share = min([self.share, *(other["share"] for other in others)])
        every = [(bytes.fromhex(code), RowPlace(*place), values) for o in others for code, place, values in o["kept"]]
        every += [(code, place, known.hashvalues) for code, (place, known) in self.kept.items()]
        self.kept = {}
        for code, place, values in sorted(every, key=lambda one: one[1][1:]):
            if at(code) < self.share and code not in self.kept:
                known = self.blank.copy()
                known.hashvalues = np.array(values, known.hashvalues.dtype)
                self.kept[code] = (place, known)
        self.keep_few()

    def find(self) -> dict[str, Any] | None:
        """How many rows of the sample have an almost equal one before them; None without datasketch."""
        if MinHash is None:
            return None
        index = MinHashLSH(threshold=ALIKE, num_perm=PERMUTATIONS)
        rows = across = 0
        shown: list[tuple[RowPlace, RowPlace, float]] = []
        for code, (place, signature) in self.kept.items():
            likely = (self.kept[other] for other in index.query(signature))
            measured = ((other, signature.jaccard(known)) for other, known in likely)
            alike = sorted((other, value) for other, value in measured if value >= ALIKE)  # a query has no order
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
    by_characters = len(text) > LETTERS * len(words) or len(words) < SHINGLE
    points = np.frombuffer(text[: 5 * WORDS if by_characters else None].encode("utf-32-le"), np.uint32)
    if by_characters:
        begins = np.arange(max(1, len(points) - 2 * SHINGLE + 1))
        ends = np.minimum(begins + 2 * SHINGLE, len(points))
    else:
        spaces = np.flatnonzero(points == SPACE)
        begins, ends = np.append(0, spaces + 1), np.append(spaces, len(points))[SHINGLE - 1 :]
    # of a polynomial the first character decides no high bit
    mixed = hash_words(points, begins[: len(ends)], ends) * np.uint64(MULTIPLIER)
    found: list[int] = (mixed >> np.uint64(32)).tolist()
    return found
