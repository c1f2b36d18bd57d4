"""Near-duplicate rows, found in a sample of bounded size.

Source: Broder 1997, "On the resemblance and containment of documents"; MinHash and its index are datasketch's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zoo.data.sources.repeated.repeats import RowPlace
from zoo.data.tokenizers.word_cache import MULTIPLIER, hash_words

try:
    from datasketch import MinHash, MinHashLSH
except ImportError:  # the extra `duplicates` is not installed: then near duplicates are not counted
    MinHash = MinHashLSH = None

ROWS = 20_000  # at most in the sample
WORDS = 2000  # of a text; the rest is not compared
LETTERS = 20  # per word; a text with more is in a script without spaces between words
SHINGLE = 5  # words per shingle; 2 * SHINGLE characters in a text with few words or spaces
PERMUTATIONS = 64  # of MinHash: a similarity of 0.8 is estimated with a standard error of sqrt(0.8 * 0.2 / 64) = 0.05
ALIKE = 0.8  # Jaccard similarity of the shingles, from which two texts are near duplicates
SHOWN = 3  # pairs given as examples
SPACE = ord(" ")
INSTALL = "near duplicates need datasketch, which is not installed: pip install 'zoo[duplicates]'"


class NearDuplicates:
    """Near duplicates in a sample of rows.

    The hash of a row's text alone decides whether the row is sampled, so the sample does not depend on how many
    processes read the rows.

    Attributes:
        share: of all text hashes, the fraction that is sampled.
        seen: rows added, sampled or not.
        kept: text hash -> the first row with that text, and its MinHash.
        blank: an empty MinHash, copied for each text.
    """

    def __init__(self) -> None:
        self.share = 1.0
        self.seen = 0
        self.kept: dict[bytes, tuple[RowPlace, Any]] = {}
        # drawing the permutations takes as long as hashing a short text, so they are drawn once
        self.blank: Any = None if MinHash is None else MinHash(num_perm=PERMUTATIONS, hashfunc=int)

    def add(self, text: str, code: bytes, place: RowPlace) -> None:
        """Add a row; of rows with the same text, only the first is kept.

        Args:
            code: the hash of the text (`code_of`).
        """
        self.seen += 1
        if MinHash is None or sampling_value(code) >= self.share or code in self.kept:
            return
        words = text[: LETTERS * WORDS].split()
        if not words:
            return
        found = self.blank.copy()
        found.update_batch(shingles(words))
        self.kept[code] = (place, found)
        self.shrink()

    def shrink(self) -> None:
        """Halve the sampled fraction until at most `ROWS` rows are left."""
        while len(self.kept) > ROWS:
            self.share /= 2
            self.kept = {code: one for code, one in self.kept.items() if sampling_value(code) < self.share}

    def plain(self) -> dict[str, Any]:
        """The state as JSON values, for `join`."""
        kept = [[code.hex(), place, known.hashvalues.tolist()] for code, (place, known) in self.kept.items()]
        return {"share": self.share, "seen": self.seen, "kept": kept}

    def join(self, others: Sequence[Mapping[str, Any]]) -> None:
        """Merge the states of other processes; the sample becomes what one process would have drawn from all rows."""
        self.seen += sum(other["seen"] for other in others)
        self.share = min([self.share, *(other["share"] for other in others)])
        every = [(bytes.fromhex(code), RowPlace(*place), values) for o in others for code, place, values in o["kept"]]
        every += [(code, place, known.hashvalues) for code, (place, known) in self.kept.items()]
        self.kept = {}
        for code, place, values in sorted(every, key=lambda one: one[1][1:]):
            if sampling_value(code) < self.share and code not in self.kept:
                known = self.blank.copy()
                known.hashvalues = np.array(values, known.hashvalues.dtype)
                self.kept[code] = (place, known)
        self.shrink()

    def find(self) -> dict[str, Any] | None:
        """Count the sampled rows that have a near duplicate before them; None if datasketch is not installed."""
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


def sampling_value(code: bytes) -> float:
    """A text's hash as a number from 0 to 1."""
    return int.from_bytes(code, "big") / 2**64


def shingles(words: list[str]) -> list[int]:
    """Hashes of a text's shingles: runs of `SHINGLE` words, or of 2 * `SHINGLE` characters if words are few or long."""
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
    # a polynomial's constant term, the first character, reaches no high bit: multiply before taking the high half
    mixed = hash_words(points, begins[: len(ends)], ends) * np.uint64(MULTIPLIER)
    found: list[int] = (mixed >> np.uint64(32)).tolist()
    return found
