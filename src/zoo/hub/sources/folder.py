"""A folder that a stranger made: read inside of it only, with limits, and nothing in it is ever run."""

import json
import math
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

Json = dict[str, Any]
MOST_BYTES = 64 * 2**20  # of a file that is read whole: the largest published tokenizers have half of it


def strict_json(content: bytes, place: str) -> Json:
    """A JSON map without NaN, infinities or repeated keys.

    Raises:
        ValueError: anything else; the message names the place.
    """
    try:
        tree = json.loads(content, object_pairs_hook=each_once, parse_constant=no_number, parse_float=finite)
    except RecursionError:
        raise ValueError(f"{place}: is nested too deeply") from None
    except ValueError as error:  # broken UTF-8 among them
        raise ValueError(f"{place}: is not JSON: {error}") from None
    if not isinstance(tree, dict):
        raise ValueError(f"{place}: expected a map, got {tree!r:.80}")
    return tree


def each_once(pairs: list[tuple[str, Any]]) -> Json:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key '{next(name for name in names if names.count(name) > 1)}' is written twice")
    return tree


def no_number(word: str) -> None:
    raise ValueError(f"{word} is not a number")


def finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is larger than any number")
    return number


@dataclass(frozen=True)
class CheckpointFolder:
    """A folder of files that somebody else wrote.

    Links are followed as long as they stay inside, or lead to the blobs of a hub cache whose snapshot this is.
    """

    folder: Path

    @cached_property
    def allowed(self) -> tuple[Path, ...]:
        """Where its files may really lie."""
        root = self.folder.resolve()
        return (root, root.parents[1] / "blobs") if root.parent.name == "snapshots" else (root,)

    def has(self, name: str) -> bool:
        return (self.folder / name).exists() or (self.folder / name).is_symlink()

    def path(self, name: str) -> Path:
        """Where a file lies.

        Raises:
            ValueError: it is not there, is no ordinary file, or is a link that leads out of the folder.
        """
        path = self.folder / name
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):  # also a link to itself
            raise ValueError(f"{path}: no such file") from None
        if Path(name).name != name or not any(real.is_relative_to(place) for place in self.allowed):
            raise ValueError(f"{path}: leads out of the folder, and nothing outside of it is read")
        if not stat.S_ISREG(real.stat().st_mode):
            raise ValueError(f"{path}: is not an ordinary file")
        return real

    def read(self, name: str) -> bytes:
        """The content of a file.

        Raises:
            ValueError: as `path`, or it is too large or cannot be read.
        """
        try:
            with self.path(name).open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise ValueError(f"{self.folder / name}: {error.strerror}") from None
        if len(content) > MOST_BYTES:
            raise ValueError(f"{self.folder / name}: is larger than {MOST_BYTES // 2**20} MiB, which no such file is")
        return content

    def read_json(self, name: str) -> Json:
        """A JSON file that holds a map; an empty one where there is no such file."""
        return strict_json(self.read(name), str(self.folder / name)) if self.has(name) else {}

    def read_all(self, names: Iterable[str]) -> dict[str, bytes]:
        """The contents of those files that are there, by name."""
        return {name: self.read(name) for name in names if self.has(name)}
