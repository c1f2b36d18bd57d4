"""Document lengths, counted exactly in little memory."""

import math
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.data.ids import Ids, Lengths

CAP = 1 << 16  # tokens; documents that are not shorter are few, so their lengths are kept one by one
DOCUMENTS, TOKENS = 1024, 1 << 22  # at most so many of each are read at once
QUANTILES = {"median": 0.5, "p90": 0.9, "p99": 0.99}


class LengthTally:
    """Document lengths (tokens): how many documents have each length below `CAP`, and a list of the others."""

    def __init__(self) -> None:
        self.counts = np.zeros(CAP, dtype=np.int64)
        self.long = array("q")
        self.longest = 0

    def add(self, lengths: Ids) -> None:
        """Add the lengths of more documents."""
        short = lengths[lengths < CAP]
        self.counts += np.bincount(short, minlength=CAP)
        self.long.extend(lengths[lengths >= CAP].tolist())
        self.longest = max(self.longest, int(lengths.max(initial=0)))

    @property
    def documents(self) -> int:
        return int(self.counts.sum()) + len(self.long)

    @property
    def tokens(self) -> int:
        return int(self.counts @ np.arange(CAP)) + sum(self.long)

    def quantile(self, share: float) -> int:
        """The smallest length that at least `share` of the documents do not exceed."""
        shorter, wanted = np.cumsum(self.counts), math.ceil(share * self.documents)
        at = int(np.searchsorted(shorter, wanted))
        return at if at < CAP else sorted(self.long)[wanted - int(shorter[-1]) - 1]

    def longer_than(self, limit: int) -> tuple[int, int]:
        """The number of documents longer than `limit`, and the number of their tokens beyond it."""
        longer, counts = np.arange(CAP)[limit + 1 :], self.counts[limit + 1 :]
        beyond = [length - limit for length in self.long if length > limit]
        return int(counts.sum()) + len(beyond), int(counts @ (longer - limit)) + sum(beyond)

    def histogram(self) -> list[dict[str, int]]:
        """The number of documents with 1, 2 to 3, 4 to 7 … tokens, without empty bins at the ends."""
        found = []
        for power in range(CAP.bit_length() - 1):
            count = int(self.counts[1 << power : 2 << power].sum())
            found.append({"from": 1 << power, "to": (2 << power) - 1, "documents": count})
        found.append({"from": CAP, "to": max(CAP, self.longest), "documents": len(self.long)})
        filled = [number for number, bar in enumerate(found) if bar["documents"]]
        return found[filled[0] : filled[-1] + 1] if filled else []

    def describe(self) -> dict[str, Any]:
        """Mean, quantiles, maximum and histogram as JSON values."""
        quantiles = {name: self.quantile(share) for name, share in QUANTILES.items()}
        mean = self.tokens / max(1, self.documents)
        return {"mean": mean, **quantiles, "longest": self.longest, "histogram": self.histogram()}


def document_offsets(lengths: Lengths, field: str, first: int, last: int) -> Ids:
    """Offsets of documents first:last in the flat ids of a field: the start of each, then the end of the last."""
    units = lengths.sentences if lengths.sentences is not None else lengths.lists.get(field)
    offsets = lengths.offsets[field]
    if units is None:
        return np.asarray(offsets[first : last + 1])
    borders = np.asarray(units[first : last + 1])
    found: Ids = np.asarray(offsets[int(borders[0]) : int(borders[-1]) + 1])[borders - borders[0]]
    return found


def document_ranges(lengths: Lengths, fields: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Yield consecutive ranges (first, last) of documents, each small enough to read at once.

    A document of more than `TOKENS` tokens has a range of its own.
    """
    first = 0
    while first < lengths.documents:
        last = min(first + DOCUMENTS, lengths.documents)
        fitting = int(np.searchsorted(np.cumsum(document_lengths(lengths, fields, first, last)), TOKENS, side="right"))
        last = first + max(1, fitting)
        yield first, last
        first = last


def document_lengths(lengths: Lengths, fields: tuple[str, ...], first: int, last: int) -> NDArray[np.int64]:
    """The number of tokens of each document in first:last, summed over fields."""
    of_each = [np.diff(document_offsets(lengths, field, first, last)) for field in fields]
    found: NDArray[np.int64] = np.sum(of_each, axis=0, dtype=np.int64)
    return found
