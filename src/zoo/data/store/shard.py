"""A shard: the tokens of one part of a source, in a folder that is created atomically."""

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

from zoo.data.home import explain_write_error, replace_file
from zoo.data.sealed import read_sealed, write_sealed
from zoo.disk import sync

INDEX = "index.json"
VERIFIED = "verified.json"  # mtimes of the files whose checksums were verified after the shard was copied
OPEN = 256  # arrays that are mapped at once: a process may have only a limited number of files open


class Shard:
    """One folder of the token store.

    Raises:
        FileNotFoundError: the folder or one of its files does not exist.
        OSError, ValueError, KeyError, TypeError: it is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            index = read_sealed(folder / INDEX)
        except ValueError as damage:
            raise ValueError(f"{folder / INDEX}: {damage}") from None
        if (name := index["name"]) != folder.name:
            raise ValueError(f"{folder / INDEX}: is of the shard {name}: another source, tokenizer or way of reading")
        self.splits: dict[str, dict[str, Any]] = index["sides"]
        self.files: dict[str, dict[str, Any]] = index["files"]
        self.source: str = index["source"]
        # the arguments of `map_file`, cached: planning asks for two arrays per document, and building a path is slow
        self.mappings: dict[tuple[str, str], tuple[str, str, int, int]] = {}
        self.check_times()

    def check_times(self) -> None:
        """Verify file sizes, and once the checksums of files whose mtime is not the recorded one, as after a copy.

        Raises:
            ValueError: a file has another size or another content than recorded.
        """
        stats = {name: (self.folder / name).stat() for name in self.files}
        for name, stat in stats.items():
            if stat.st_size != self.files[name]["size"]:
                raise ValueError(f"{self.folder / name}: {stat.st_size} bytes, expected {self.files[name]['size']}")
        times = {name: stat.st_mtime_ns for name, stat in stats.items()}
        changed = [name for name, time in times.items() if time != self.files[name]["mtime_ns"]]
        if changed and self.verified() != times:
            if fault := next(self.faults(), None):
                raise ValueError(fault)
            with suppress(RuntimeError):  # in a read-only folder the checksums are verified each time
                replace_file(self.folder / VERIFIED, json.dumps(times))

    def verified(self) -> Any:
        """The mtimes of the files when their checksums were last verified; None if they never were."""
        try:
            return json.loads((self.folder / VERIFIED).read_text("utf-8"))
        except (OSError, ValueError):
            return None

    def faults(self) -> Iterator[str]:
        """Yield a message for each file that cannot be read or whose checksum does not match."""
        for name, known in self.files.items():
            try:
                with (self.folder / name).open("rb") as stream:
                    found = hashlib.file_digest(stream, "sha256").hexdigest()
            except OSError as error:
                yield f"{self.folder / name}: {error.strerror}"
                continue
            if found != known["sha256"]:
                yield f"{self.folder / name}: its checksum does not match"

    def documents(self, split: str) -> int:
        """The number of documents of a split."""
        return int(self.splits[split]["documents"])

    def left_out(self, split: str) -> int:
        """The number of rows of a split that the task's filter drops."""
        return int(self.splits[split]["left_out"])

    def arrays(self, split: str) -> Mapping[str, Mapping[str, Any]]:
        """Arrays by name: the type and number of their values, and of offsets the last one."""
        found: Mapping[str, Mapping[str, Any]] = self.splits[split]["arrays"]
        return found

    def array(self, split: str, name: str) -> NDArray[Any]:
        """An array of numbers, memory-mapped."""
        if (split, name) not in self.mappings:
            kind = self.arrays(split)[name]
            time = self.files[f"{split}/{name}"]["mtime_ns"]
            self.mappings[split, name] = (str(self.folder / split / name), kind["dtype"], kind["count"], time)
        return map_file(*self.mappings[split, name])


def release(array: NDArray[Any]) -> None:
    """Release the memory of the pages that were read of a mapped array; it can be read again."""
    if isinstance(array.base, np.memmap):
        array.base._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]  # numpy has no public access to it


@lru_cache(maxsize=OPEN)
def map_file(path: str, dtype: str, count: int, time: int) -> NDArray[Any]:
    """The numbers in a file, memory-mapped.

    Args:
        time: the file's mtime in ns: part of the cache's key, so that a rewritten file is mapped again.

    Raises:
        OSError, ValueError: the file is missing, or its size is not that of `count` numbers.
    """
    kind = np.dtype(dtype)
    if (size := os.stat(path).st_size) != kind.itemsize * count:
        raise ValueError(f"{path}: {size} bytes, expected {kind.itemsize * count}")
    if count == 0:
        return np.zeros(0, kind)
    # a plain ndarray: slicing a memmap object takes as long as reading the slice
    return np.memmap(path, dtype=kind, mode="r", shape=(count,)).view(np.ndarray)


def write_index(folder: Path, splits: Mapping[str, Any], files: Mapping[str, Any], source: str, name: str) -> None:
    """Complete a shard: a folder without an index is not one.

    Args:
        name: of the folder that it belongs in, which says what it is made from; it is refused in any other.
    """
    write_sealed(folder / INDEX, {"sides": splits, "files": files, "source": source, "name": name})
    with explain_write_error(folder / INDEX):
        sync(folder / INDEX)
