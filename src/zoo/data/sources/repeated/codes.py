"""Hashes of a part's texts, kept on disk: a new file is compared with all others without reading those again."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoo.data.atomic_folders import make_once
from zoo.data.home import explain_write_error, home, name_for
from zoo.data.sealed import read_sealed, write_sealed
from zoo.data.sources.repeated.repeats import ENTRY, WAITING, code_of

FOLDER, INDEX, CODES = "codes", "index.json", "codes"


class PartCodes(NamedTuple):
    """The hashes of those rows of a part that are compared with others.

    Args:
        path: a file of `ENTRY` records, as in `repeats`, with 0 as the number of the part.
        rows: number of rows of the part, including those that are not compared.
    """

    path: Path
    rows: int


class CodedRow(NamedTuple):
    """A row of a part.

    Args:
        split: the number of the split that it counts for.
        text: None if it is not compared.
    """

    number: int
    split: int
    text: str | None


def codes_of(key: Sequence[Any], rows: Callable[[], Iterable[CodedRow]]) -> PartCodes:
    """The hashes of a part, computed by the first process that asks.

    Args:
        key: everything that determines the rows, as plain values.
        rows: reads the rows.
    """
    return make_once(home() / FOLDER / name_for(key), lambda folder: write_codes(folder, rows()), read_codes)


def write_codes(folder: Path, rows: Iterable[CodedRow]) -> None:
    """Read the rows, and write their hashes into an empty folder."""
    digest, waiting, count = hashlib.sha256(), list[tuple[int, int, int, int]](), 0

    def flush() -> None:
        content = np.array(waiting, dtype=ENTRY).tobytes()
        with explain_write_error(folder / CODES), (folder / CODES).open("ab") as file:
            file.write(content)
        digest.update(content)
        waiting.clear()

    for row in rows:
        count = row.number
        if row.text is not None:
            waiting.append((int.from_bytes(code_of(row.text), "big"), row.split, 0, row.number))
        if len(waiting) >= WAITING:
            flush()
    flush()
    write_sealed(folder / INDEX, [count, digest.hexdigest()])


def read_codes(folder: Path) -> PartCodes | None:
    """Read the hashes in a folder; None if they are missing or damaged."""
    try:
        count, digest = read_sealed(folder / INDEX)
        with (folder / CODES).open("rb") as file:
            whole = hashlib.file_digest(file, "sha256").hexdigest() == digest
    except (OSError, ValueError, TypeError):
        return None
    return PartCodes(folder / CODES, int(count)) if whole else None
