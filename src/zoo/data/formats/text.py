"""Text files: one document per line, paragraph or file; very long ones become several documents."""

import itertools
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import ClassVar

from zoo.data.formats.format import FileFormat, ReadOptions, Row, formats
from zoo.data.formats.lines import LineRange, extension, read_lines
from zoo.data.long_texts import split_text

UNSAID = "its first line is a JSON object, but '{}' files are read as text; set 'format: jsonl' or 'format: text'"
LONGEST = 1 << 22  # characters of a document; a longer text becomes several documents


@formats.register("text")
class TextFile(FileFormat):
    """One column, `text`: the lines, the paragraphs, or the whole file.

    A paragraph or a file of more than `LONGEST` characters is several documents, cut at line ends where it has any.
    """

    extensions: ClassVar[tuple[str, ...]] = (".txt",)
    heeds: ClassVar[tuple[str, ...]] = ("documents",)
    names_files: ClassVar[bool] = False

    def columns(self, path: Path, options: ReadOptions) -> list[str]:
        return ["text"]

    def can_cut_at_lines(self, options: ReadOptions) -> bool:
        return options.documents == "line"

    def is_one_text(self, options: ReadOptions) -> bool:
        return options.documents == "file"

    def rows(self, line_range: LineRange, options: ReadOptions, wanted: Collection[str] | None = None) -> Iterator[Row]:
        """Yield the text of each line, paragraph or file.

        Raises:
            ValueError: `header` names columns; or the first line is a JSON object, and neither `format` nor `documents`
                is set.
        """
        if options.header is not None:
            said = "it is read as text, which has no columns for 'header' to name; set 'format: csv', 'tsv' or 'conll'"
            raise ValueError(f"{line_range.path}: {said}")
        lines = read_lines(line_range)
        if line_range.start == 0 and options.format is None and options.documents == ReadOptions.documents:
            first = next(lines)
            if is_object(first):
                raise ValueError(f"{line_range.path}: {UNSAID.format(extension(line_range.path))}")
            lines = itertools.chain([first], lines)
        return ({"text": text} for text in DOCUMENTS[options.documents](lines))


def is_object(line: str) -> bool:
    """Whether a line is a JSON object."""
    try:
        return line.lstrip().startswith("{") and json.loads(line) is not None
    except (ValueError, RecursionError):
        return False


def paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Yield each group of lines between blank lines as one text."""
    for filled, group in itertools.groupby(lines, key=lambda line: bool(line.strip())):
        if filled:
            yield from (text.removesuffix("\n") for text in join_lines(group))


def join_lines(lines: Iterable[str]) -> Iterator[str]:
    """Join lines to one text, or to several of at most `LONGEST` characters; without lines, to an empty one."""
    held, size = list[str](), 0
    for part in (part for line in lines for part in split_text(line, LONGEST)):
        if size + len(part) > LONGEST:
            yield "".join(held)
            held, size = [], 0
        held.append(part)
        size += len(part)
    yield "".join(held)


DOCUMENTS: dict[str, Callable[[Iterable[str]], Iterator[str]]] = {
    "line": lambda lines: (line.removesuffix("\n") for line in lines),
    "blank_line": paragraphs,
    "file": join_lines,
}
