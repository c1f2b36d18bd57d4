"""A shard: the tokens of one part of a source, in a folder that is there whole or not at all."""

import hashlib
import json
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.data.home import name_file, replace_file
from zoo.data.sealed import read_sealed, write_sealed
from zoo.disk import sync

INDEX = "index.json"
VERIFIED = "verified.json"  # the times of files whose bytes were looked at, after the shard was copied
OPEN = 256  # arrays that are mapped at once: a process may have few files open


class Shard:
    """One folder of the token store.

    Raises:
        FileNotFoundError: there is none.
        OSError, ValueError, KeyError, TypeError: it is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            index = read_sealed(folder / INDEX)
        except ValueError as damage:
            raise ValueError(f"{folder / INDEX}: {damage}") from None
        self.sides: dict[str, dict[str, Any]] = index["sides"]
        self.files: dict[str, dict[str, Any]] = index["files"]
        self.source: str = index["source"]
        # the arguments of `map_file`: two for each document that is planned, and a path takes longest to make
        self.mappings: dict[tuple[str, str], tuple[str, str, int, int]] = {}
        self.check_times()

    def check_times(self) -> None:
        """Look at the bytes of files whose time is not that of their making, once."""
        stats = {name: (self.folder / name).stat() for name in self.files}
        for name, stat in stats.items():
            if stat.st_size != self.files[name]["size"]:
                raise ValueError(f"{self.folder / name}: {stat.st_size} bytes, expected {self.files[name]['size']}")
        times = {name: stat.st_mtime_ns for name, stat in stats.items()}
        changed = [name for name, time in times.items() if time != self.files[name]["mtime_ns"]]
        if changed and self.verified() != times:
            if fault := next(self.faults(), None):
                raise ValueError(fault)
            with suppress(RuntimeError):  # a folder that others may only read: its bytes are looked at each time
                replace_file(self.folder / VERIFIED, json.dumps(times))

    def verified(self) -> Any:
        """The times of the files whose bytes were found whole; None: none were."""
        try:
            return json.loads((self.folder / VERIFIED).read_text("utf-8"))
        except (OSError, ValueError):
            return None

    def faults(self) -> Iterator[str]:
        """Each file whose bytes are not those that were written."""
        for name, known in self.files.items():
            try:
                with (self.folder / name).open("rb") as stream:
                    found = hashlib.file_digest(stream, "sha256").hexdigest()
            except OSError as error:
                yield f"{self.folder / name}: {error.strerror}"
                continue
            if found != known["sha256"]:
                yield f"{self.folder / name}: its checksum does not match"

    def documents(self, side: str) -> int:
        return int(self.sides[side]["documents"])

    def left_out(self, side: str) -> int:
        """How many rows of its source the task's filter leaves out of a split."""
        return int(self.sides[side]["left_out"])

    def arrays(self, side: str) -> Mapping[str, Mapping[str, Any]]:
        """By name, the type and the number of an array's values."""
        found: Mapping[str, Mapping[str, Any]] = self.sides[side]["arrays"]
        return found

    def array(self, side: str, name: str) -> NDArray[Any]:
        """An array of plain numbers, memory-mapped."""
        if (side, name) not in self.mappings:
            kind = self.arrays(side)[name]
            time = self.files[f"{side}/{name}"]["mtime_ns"]
            self.mappings[side, name] = (str(self.folder / side / name), kind["dtype"], kind["count"], time)
        return map_file(*self.mappings[side, name])


def release(array: NDArray[Any]) -> None:
    """Give back the memory of what was read of a mapped array; it can be read again."""
    if isinstance(array.base, np.memmap):
        array.base._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]  # numpy has no other way to it


@lru_cache(maxsize=OPEN)
def map_file(path: str, dtype: str, count: int, time: int) -> NDArray[Any]:
    """Plain numbers of a file, memory-mapped.

    Args:
        time: when it was written: a file that was made again is another one.

    Raises:
        OSError, ValueError: the file is missing or has another size than was written.
    """
    kind = np.dtype(dtype)
    if (size := os.stat(path).st_size) != kind.itemsize * count:
        raise ValueError(f"{path}: {size} bytes, expected {kind.itemsize * count}")
    if count == 0:
        return np.zeros(0, kind)
    # a plain view: each slice of a memmap costs as much as reading it
    return np.memmap(path, dtype=kind, mode="r", shape=(count,)).view(np.ndarray)


def write_index(folder: Path, sides: Mapping[str, Any], files: Mapping[str, Any], source: str) -> None:
    """Finish a shard: with its index, everything is there."""
    write_sealed(folder / INDEX, {"sides": sides, "files": files, "source": source})
    with name_file(folder / INDEX):
        sync(folder / INDEX)
