"""Rows of train whose text occurs in an earlier or a held-out row: found on disk, stored as one bit per row."""

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoo.data.atomic_folders import make_once
from zoo.data.formats.format import Row
from zoo.data.home import explain_write_error, home, name_for
from zoo.data.sealed import read_sealed, write_sealed
from zoo.data.sources.checking import AssignedRow, texts_in
from zoo.data.sources.origin import TRAIN
from zoo.data.sources.part import SourcePart
from zoo.data.sources.repeated.codes import CodedRow, codes_of
from zoo.data.sources.repeated.repeats import Repeats, read_chunks

VERSION = 3  # increase it when other rows count as repeated
FOLDER, INDEX, MARKS = "repeated", "index.json", "marks"
HELD_OUT, KEPT = 0, 1  # split numbers for the comparison
PAGE = 1 << 15  # bytes of marks read at once


class ComparedPart(NamedTuple):
    """A part of a source whose texts are compared with all others.

    Args:
        decided: what determines its rows and their splits, as plain values.
        rows: reads them, before any is dropped.
        counts: whether a row of train takes part in the comparison.
    """

    part: SourcePart
    decided: Sequence[Any]
    rows: Callable[[], Iterator[AssignedRow]]
    counts: Callable[[Row], bool]


class Duplicates:
    """The rows of train that repeat others, over all sources that are read together.

    Args:
        parts: gives the parts of all splits of all sources; of equal rows of train, the first in their order stays.
    """

    def __init__(self, parts: Callable[[], Sequence[ComparedPart]]) -> None:
        self.find_parts = parts

    @cached_property
    def parts(self) -> Sequence[ComparedPart]:
        return self.find_parts()

    @cached_property
    def numbers(self) -> Mapping[int, int]:
        """The position of each part in `parts`, by its id()."""
        return {id(one.part): number for number, one in enumerate(self.parts)}

    @cached_property
    def folder(self) -> Path:
        return home() / FOLDER / name_for([VERSION, [one.decided for one in self.parts]])

    def digest(self, part: SourcePart) -> str:
        """A hash of the marks of a part."""
        return str(self.index[self.numbers[id(part)]][0])

    def marks(self, part: SourcePart) -> "RowMarks":
        """The rows of a part that repeat others."""
        digest, start, stop = self.index[self.numbers[id(part)]]
        if hash_byte_range(self.folder / MARKS, start, stop) != digest:
            shutil.rmtree(self.folder)  # damaged: reading the index again compares all rows again
            del self.index
            digest, start, stop = self.index[self.numbers[id(part)]]
        return RowMarks(self.folder / MARKS, start, stop)

    @cached_property
    def index(self) -> list[tuple[str, int, int]]:
        """Per part, a hash of its marks and their byte range; computed by the first process that asks."""
        return make_once(self.folder, self.mark, read_index)

    def mark(self, folder: Path) -> None:
        """Compare all rows, and write the marks into an empty folder."""
        rows: list[int] = []
        (folder / "sorted").mkdir()
        repeats = Repeats(folder / "sorted")
        for number, one in enumerate(self.parts):
            codes = codes_of([VERSION, one.decided], partial(compared_rows, one))
            rows.append(codes.rows)
            for entries in read_chunks(codes.path):
                entries["part"] = number
                repeats.write(entries)
        starts = [0, *accumulate(-(-count // 8) for count in rows)]
        with explain_write_error(folder / MARKS):
            with (folder / MARKS).open("wb") as file:
                # zeros are written, not skipped: on a full disk, writing to a map of a sparse file kills the process
                for start in range(0, max(1, starts[-1]), PAGE):
                    file.write(bytes(min(PAGE, max(1, starts[-1]) - start)))
            bits = np.memmap(folder / MARKS, np.uint8, "r+")
            for entries in repeats.repeated_entries(HELD_OUT, KEPT):
                row = entries["row"].astype(np.int64) - 1
                at = np.array(starts, np.int64)[entries["part"]] + row // 8
                # `at`, since rows share bytes: bits[at] |= … would write each byte once, with one row's bit
                np.bitwise_or.at(bits, at, np.left_shift(1, row % 8).astype(np.uint8))
            bits.flush()
        shutil.rmtree(folder / "sorted")
        found = [(hash_byte_range(folder / MARKS, *place), *place) for place in pairwise(starts)]
        write_sealed(folder / INDEX, found)


def compared_rows(one: ComparedPart) -> Iterator[CodedRow]:
    """Yield the rows of a part, with their text if it is compared."""
    for assigned in one.rows():
        text, is_train = join_texts(texts_in(assigned.row)), assigned.split == TRAIN
        takes_part = bool(text) and (not is_train or one.counts(assigned.row))
        yield CodedRow(assigned.number, KEPT if is_train else HELD_OUT, text if takes_part else None)


class RowMarks:
    """The numbers (from 1) of the marked rows of a part; only the page that was used last is in memory.

    Args:
        start, stop: the part's bytes in the file.
    """

    def __init__(self, path: Path, start: int, stop: int) -> None:
        self.path, self.start, self.stop = path, start, stop
        self.page, self.bits = -1, np.zeros(0, np.uint8)

    def __contains__(self, number: int) -> bool:
        page, row = divmod(number - 1, 8 * PAGE)
        if page != self.page:
            at = self.start + page * PAGE
            packed = np.fromfile(self.path, np.uint8, count=max(0, min(PAGE, self.stop - at)), offset=at)
            self.page, self.bits = page, np.unpackbits(packed, bitorder="little")
        return row < len(self.bits) and bool(self.bits[row])


def read_index(folder: Path) -> list[tuple[str, int, int]] | None:
    """Read the index of a folder of marks; None if it is missing or damaged."""
    try:
        return [(str(digest), int(start), int(stop)) for digest, start, stop in read_sealed(folder / INDEX)]
    except (OSError, ValueError, TypeError):
        return None


def read_marks(folder: Path) -> list[tuple[str, int, int]] | None:
    """Read the index of a folder of marks; None if it is missing, or it or the marks are damaged."""
    index = read_index(folder)
    whole = index is not None and all(hash_byte_range(folder / MARKS, *place) == digest for digest, *place in index)
    return index if whole else None


def hash_byte_range(path: Path, start: int, stop: int) -> str:
    """The SHA-256 of a range of bytes of a file; a missing file counts as empty."""
    code = hashlib.sha256()
    try:
        with path.open("rb") as file:
            file.seek(start)
            while start < stop and (piece := file.read(min(PAGE, stop - start))):
                code.update(piece)
                start += len(piece)
    except FileNotFoundError:
        pass
    return code.hexdigest()


def join_texts(texts: Sequence[str]) -> str:
    """The texts of a row as one, '' if all are blank; the limits between texts matter, white space in them does not."""
    return " \0 ".join(texts) if any(text.strip() for text in texts) else ""
