"""Text files: one document a line, a paragraph or a file."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import ClassVar

from datasets import Dataset

from zoo.data.formats.format import FileFormat, ReadOptions, collect, formats
from zoo.data.formats.lines import read_lines
from zoo.data.sources.columns import Columns


@formats.register("text")
class TextFile(FileFormat):
    """One column, `text`: the lines, the paragraphs, or the whole file as it stands."""

    extensions: ClassVar[tuple[str, ...]] = (".txt",)

    def read(self, path: Path, options: ReadOptions, columns: Columns) -> Dataset:
        documents = DOCUMENTS[options.documents](read_lines(path))
        return collect(({"text": text} for text in documents), columns, str(path))


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
