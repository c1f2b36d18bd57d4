"""Text files: one document a line, a paragraph or a file."""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import ClassVar

from zoo.data.formats.format import FileFormat, ReadOptions, Row, formats
from zoo.data.formats.lines import LineRange, read_lines


@formats.register("text")
class TextFile(FileFormat):
    """One column, `text`: the lines, the paragraphs, or the whole file as it stands."""

    extensions: ClassVar[tuple[str, ...]] = (".txt",)

    def columns(self, path: Path, options: ReadOptions) -> list[str]:
        return ["text"]

    def cuts(self, options: ReadOptions) -> bool:
        return options.documents == "line"

    def rows(self, stretch: LineRange, options: ReadOptions, wanted: Collection[str] | None = None) -> Iterator[Row]:
        return ({"text": text} for text in DOCUMENTS[options.documents](read_lines(stretch)))


def paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Lines joined up to the next blank one."""
    for filled, group in itertools.groupby(lines, key=lambda line: bool(line.strip())):
        if filled:
            yield "".join(group).removesuffix("\n")


DOCUMENTS: dict[str, Callable[[Iterable[str]], Iterator[str]]] = {
    "line": lambda lines: (line.removesuffix("\n") for line in lines),
    "blank_line": paragraphs,
    "file": lambda lines: iter(["".join(lines)]),
}
