"""Rows with the same text, within a split and across splits, found on disk: memory does not grow with the rows."""

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoo.data.home import name_file
from zoo.data.long_texts import in_parts

BUCKETS = 256  # files by the first bits of the hash; each is sorted alone
WAITING = 1 << 16  # rows that are held before they are written
ENTRIES = 1 << 20  # rows of a bucket that are read at once
SHOWN = 3  # of what is found
PART = 1 << 20  # characters of a long text whose words are parted at once
ENTRY = np.dtype([("hash", "<u8"), ("split", "<u1"), ("part", "<u4"), ("row", "<u4")])


class RowPlace(NamedTuple):
    """Where a row stands: the number of its split, its part, and its row in that from 1."""

    split: int
    part: int
    row: int


class Repetition(NamedTuple):
    """What several rows have in common.

    Args:
        within: by split, how many rows have a text that stood in that split before.
        across: by (one split, a later one), how many rows of the later one have a text of the first.
        shown: places that share a text: some within a split, and some across splits.
    """

    within: dict[int, int]
    across: dict[tuple[int, int], int]
    shown: list[list[RowPlace]]


class Repeats:
    """Which rows have the same text, whatever white space is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.waiting: list[tuple[int, int, int, int]] = []

    def add(self, code: bytes, place: RowPlace) -> None:
        """Take one more row, by its text's `code_of`."""
        self.waiting.append((int.from_bytes(code, "big"), *place))
        if len(self.waiting) >= WAITING:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        entries = np.array(self.waiting, dtype=ENTRY)
        self.waiting = []
        self.write(entries)

    def write(self, entries: NDArray[np.void]) -> None:
        """Write some rows, each to the file of its bucket."""
        bucket = entries["hash"] // np.uint64(2**64 // BUCKETS)
        for number in np.unique(bucket).tolist():
            path = self.folder / str(number)
            with name_file(path), path.open("ab") as file:
                file.write(entries[bucket == number].tobytes())

    def take(self, folder: Path) -> None:
        """Take the rows that were written into another folder, and remove them there."""
        for path in Repeats(folder).files():
            for entries in in_pieces(path):
                with name_file(self.folder / path.name), (self.folder / path.name).open("ab") as file:
                    file.write(entries.tobytes())
            path.unlink()

    def find(self, splits: int) -> Repetition:
        """What the rows have in common."""
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

    def again(self, other: int, split: int) -> Iterator[NDArray[np.void]]:
        """The entries of a split whose text stands in another split, or in an earlier row; holds hashes, not rows."""
        self.flush()
        for path in self.files():
            known = np.zeros(0, np.uint64)
            for entries in in_pieces(path):
                known = np.union1d(known, entries["hash"][entries["split"] == other])
            for entries in in_pieces(path):
                entries = entries[entries["split"] == split]
                codes, first = np.unique(entries["hash"], return_index=True)
                earlier = np.ones(len(entries), dtype=bool)
                earlier[first] = np.isin(codes, known)
                known = np.union1d(known, codes)
                yield entries[earlier]

    def files(self) -> Iterator[Path]:
        """The files of the buckets, in the order of their hashes."""
        paths = (self.folder / str(number) for number in range(BUCKETS))
        return (path for path in paths if path.exists())

    def buckets(self) -> Iterator[tuple[NDArray[np.void], NDArray[np.int64]]]:
        """The entries of each bucket, sorted by hash and split, and for how many rows each of them stands."""
        for path in self.files():
            entries, rows = zip(*(fewer(piece) for piece in in_pieces(path)), strict=True)
            joined, counts = np.concatenate(entries), np.concatenate(rows)
            order = in_order(joined)
            yield joined[order], counts[order]


def fewer(entries: NDArray[np.void]) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Of entries with one hash and split the first and the last; the first stands for the rows of all but the last."""
    entries = entries[in_order(entries)]
    alike = (entries["hash"][1:] == entries["hash"][:-1]) & (entries["split"][1:] == entries["split"][:-1])
    first = np.flatnonzero(np.append(True, ~alike))
    count = np.diff(np.append(first, len(entries)))
    rows = np.zeros(len(entries), np.int64)
    rows[first + count - 1] = 1
    rows[first] = np.maximum(count - 1, 1)
    kept = np.flatnonzero(rows)
    return entries[kept], rows[kept]


def in_order(entries: NDArray[np.void]) -> NDArray[np.int64]:
    """How entries are sorted: by hash, then split, then where they stand, whoever has added them when."""
    found: NDArray[np.int64] = np.lexsort((entries["row"], entries["part"], entries["split"], entries["hash"]))
    return found


def in_pieces(path: Path) -> Iterator[NDArray[np.void]]:
    """The entries of a bucket in the order in which they were added, some at a time."""
    with path.open("rb") as file:
        while len(entries := np.fromfile(file, dtype=ENTRY, count=ENTRIES)):
            yield entries


def code_of(text: str) -> bytes:
    """Eight bytes that are the same for texts that differ in white space alone."""
    code, at_start = blake2b(digest_size=8), True
    for words in (part.split() for part in in_parts(text, PART)):
        if words:
            code.update(("" if at_start else " ").encode() + " ".join(words).encode())
            at_start = False
    return code.digest()


def groups(
    entries: NDArray[np.void], first: NDArray[np.int64], last: NDArray[np.int64], numbers: NDArray[np.int64]
) -> list[list[RowPlace]]:
    """The first and the last place of some texts that several rows have, in a bucket that is sorted."""
    found = []
    for number in numbers[:SHOWN].tolist():
        both = (entries[first[number]], entries[last[number]])
        found.append([RowPlace(int(each["split"]), int(each["part"]), int(each["row"])) for each in both])
    return found
