"""Rows with the same text, within and across splits, found on disk: memory does not grow with the number of rows."""

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoo.data.home import explain_write_error
from zoo.data.long_texts import split_text

BUCKETS = 256  # files by the first bits of the hash; each is sorted on its own
WAITING = 1 << 16  # rows buffered before they are written
ENTRIES = 1 << 20  # rows of a bucket read at once
SHOWN = 3  # examples of each kind of repetition
PART = 1 << 20  # characters of a long text split into words at once
ENTRY = np.dtype([("hash", "<u8"), ("split", "<u1"), ("part", "<u4"), ("row", "<u4")])


class RowPlace(NamedTuple):
    """The location of a row: the numbers of its split and its part, and its number in the part, from 1."""

    split: int
    part: int
    row: int


class Repetition(NamedTuple):
    """How many rows have the same text as others.

    Args:
        within: per split, the number of rows whose text occurs earlier in that split.
        across: (one split, a later one) -> the number of rows of the later one whose text occurs in the first.
        shown: examples: locations of rows with the same text, first across splits, then within one.
    """

    within: dict[int, int]
    across: dict[tuple[int, int], int]
    shown: list[list[RowPlace]]


class Repeats:
    """Finds the rows that have the same text, white space aside."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.waiting: list[tuple[int, int, int, int]] = []

    def add(self, code: bytes, place: RowPlace) -> None:
        """Add a row, given the `code_of` its text."""
        self.waiting.append((int.from_bytes(code, "big"), *place))
        if len(self.waiting) >= WAITING:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows."""
        entries = np.array(self.waiting, dtype=ENTRY)
        self.waiting = []
        self.write(entries)

    def write(self, entries: NDArray[np.void]) -> None:
        """Write entries, each to the file of its bucket."""
        bucket = entries["hash"] // np.uint64(2**64 // BUCKETS)
        for number in np.unique(bucket).tolist():
            path = self.folder / str(number)
            with explain_write_error(path), path.open("ab") as file:
                file.write(entries[bucket == number].tobytes())

    def move_from(self, folder: Path) -> None:
        """Move the rows that were written into another folder to this one."""
        for path in Repeats(folder).files():
            for entries in read_chunks(path):
                with explain_write_error(self.folder / path.name), (self.folder / path.name).open("ab") as file:
                    file.write(entries.tobytes())
            path.unlink()

    def find(self, splits: int) -> Repetition:
        """Count the rows that have the same text as others."""
        self.flush()
        within = dict.fromkeys(range(splits), 0)
        across = {(one, other): 0 for other in range(splits) for one in range(other)}
        alike: list[list[RowPlace]] = []
        leaking: list[list[RowPlace]] = []
        for entries, rows in self.buckets():
            _, first, group = np.unique(entries["hash"], return_index=True, return_inverse=True)
            table = np.zeros((len(first), splits), np.int64)
            np.add.at(table, (group, entries["split"]), rows)
            last = np.append(first[1:], len(entries)) - 1
            for split in within:
                within[split] += int(np.maximum(table[:, split] - 1, 0).sum())
            for one, other in across:
                across[one, other] += int(table[table[:, one] > 0, other].sum())
            splits_of = (table > 0).sum(axis=1)
            alike += groups(entries, first, last, np.flatnonzero((splits_of == 1) & (table.sum(axis=1) > 1)))
            leaking += groups(entries, first, last, np.flatnonzero(splits_of > 1))
        return Repetition(within, across, [*leaking[:SHOWN], *alike[:SHOWN]])

    def repeated_entries(self, other: int, split: int) -> Iterator[NDArray[np.void]]:
        """Yield the entries of a split whose text occurs in `other` or in an earlier row; memory holds only hashes."""
        self.flush()
        for path in self.files():
            known = np.zeros(0, np.uint64)
            for entries in read_chunks(path):
                known = np.union1d(known, entries["hash"][entries["split"] == other])
            for entries in read_chunks(path):
                entries = entries[entries["split"] == split]
                codes, first = np.unique(entries["hash"], return_index=True)
                # of equal entries in this chunk, all but the first repeat one; the first, if its hash is known already
                earlier = np.ones(len(entries), dtype=bool)
                earlier[first] = np.isin(codes, known)
                known = np.union1d(known, codes)
                yield entries[earlier]

    def files(self) -> Iterator[Path]:
        """The bucket files that exist, in the order of their hashes."""
        paths = (self.folder / str(number) for number in range(BUCKETS))
        return (path for path in paths if path.exists())

    def buckets(self) -> Iterator[tuple[NDArray[np.void], NDArray[np.int64]]]:
        """The entries of each bucket, sorted by hash and split, and the number of rows that each of them stands for."""
        for path in self.files():
            entries, rows = zip(*(first_and_last(piece) for piece in read_chunks(path)), strict=True)
            joined, counts = np.concatenate(entries), np.concatenate(rows)
            order = sort_order(joined)
            yield joined[order], counts[order]


def first_and_last(entries: NDArray[np.void]) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Keep the first and the last entry of each hash and split; the first stands for the rows of all but the last."""
    entries = entries[sort_order(entries)]
    alike = (entries["hash"][1:] == entries["hash"][:-1]) & (entries["split"][1:] == entries["split"][:-1])
    first = np.flatnonzero(np.append(True, ~alike))
    count = np.diff(np.append(first, len(entries)))
    rows = np.zeros(len(entries), np.int64)
    rows[first + count - 1] = 1
    rows[first] = np.maximum(count - 1, 1)
    kept = np.flatnonzero(rows)
    return entries[kept], rows[kept]


def sort_order(entries: NDArray[np.void]) -> NDArray[np.int64]:
    """The order of entries by hash, split, part and row, whichever order they were added in."""
    found: NDArray[np.int64] = np.lexsort((entries["row"], entries["part"], entries["split"], entries["hash"]))
    return found


def read_chunks(path: Path) -> Iterator[NDArray[np.void]]:
    """Yield the entries of a bucket in the order in which they were added, `ENTRIES` at a time."""
    with path.open("rb") as file:
        while len(entries := np.fromfile(file, dtype=ENTRY, count=ENTRIES)):
            yield entries


def code_of(text: str) -> bytes:
    """An 8-byte hash of a text that ignores differences in white space."""
    code, at_start = blake2b(digest_size=8), True
    for words in (part.split() for part in split_text(text, PART)):
        if words:
            code.update(("" if at_start else " ").encode() + " ".join(words).encode())
            at_start = False
    return code.digest()


def groups(
    entries: NDArray[np.void], first: NDArray[np.int64], last: NDArray[np.int64], numbers: NDArray[np.int64]
) -> list[list[RowPlace]]:
    """The locations of the first and the last row of some of the texts that several rows have, in a sorted bucket."""
    found = []
    for number in numbers[:SHOWN].tolist():
        both = (entries[first[number]], entries[last[number]])
        found.append([RowPlace(int(each["split"]), int(each["part"]), int(each["row"])) for each in both])
    return found
