"""Walks a folder and its subfolders, following links, and matches patterns in them."""

import fnmatch
import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from zoo.data.formats.compression import reason
from zoo.disk import is_folder


def matching(at: Path, parts: Sequence[str], place: str) -> Iterator[Path]:
    """Yield the paths that the parts of a pattern match in a folder, as `glob` does; but `**` walks as `walk` does.

    Raises:
        ValueError: a folder cannot be read.
    """
    if not parts:
        yield at
        return
    first, rest = parts[0], parts[1:]
    if not glob.has_magic(first):
        yield from matching(at / first, rest, place) if os.path.lexists(at / first) else ()
    elif first == "**" and is_folder(at):
        for below, _ in walk(at, place):
            yield from matching(below, rest or ["*"], place)
    elif is_folder(at):
        try:
            names = fnmatch.filter(os.listdir(at), first)
        except OSError as error:
            raise unreadable(error, place) from None
        for name in names:
            if first.startswith(".") or not name.startswith("."):
                yield from matching(at / name, rest, place)


def walk(folder: Path, place: str) -> Iterator[tuple[Path, list[str]]]:
    """Yield a folder and its subfolders, each once, with the names of their files; follows links, skips hidden names.

    Raises:
        ValueError: one cannot be read.
    """

    def refuse(error: OSError) -> None:
        raise unreadable(error, place)

    links = Links(folder)
    for stands, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        within = Path(stands)
        folders[:] = [name for name in sorted(folders) if not name.startswith(".") and links.should_walk(within / name)]
        yield within, [name for name in names if not name.startswith(".")]


def unreadable(error: OSError, place: str) -> ValueError:
    return ValueError(f"{place}: {error.filename}: the folder cannot be read: {reason(error)}")


class Links:
    """Decides which folders to walk, so that each is walked once; those inside the folder itself not through links."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.met = folder.resolve(), set[Path]()

    def should_walk(self, path: Path) -> bool:
        """Whether to walk a folder: not if its real path is walked anyway, was walked before, or contains `folder`."""
        real = path.resolve()
        inside = real.is_relative_to(self.folder)
        hidden = inside and any(name.startswith(".") for name in real.relative_to(self.folder).parts)
        if inside and not hidden:
            return not path.is_symlink()
        new = not self.folder.is_relative_to(real) and real not in self.met
        self.met.add(real)
        return new
