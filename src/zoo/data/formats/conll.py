"""CoNLL columns: one word per line with its annotations, and a blank line between sentences."""

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from typing import ClassVar, NamedTuple

from zoo.data.formats.format import FileFormat, ReadOptions, Row, formats
from zoo.data.formats.lines import LineRange, read_lines
from zoo.data.ids import TAGS, WORDS
from zoo.wording import counted

DOCUMENT = "-DOCSTART-"  # CoNLL 2003's line between two documents
NUMBER = "id"  # CoNLL-U's column of word numbers: 3-4 is a contraction of two words, 5.1 an omitted word
# "# sent_id = 3", "# newdoc id = n01"; "# id 5f3b" of MultiCoNER (Malmasi et al. 2022)
COLUMNS = ["id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc"]  # of CoNLL-U
COMMENT = re.compile(r"#\s+(id\s|\S+\s+=\s|\S+ \S+\s+=\s)")
LONGEST = 1 << 20  # words of a sentence; a file without blank lines must not fill the memory


class Sentence(NamedTuple):
    """The fields of each word, and the number of its line."""

    words: list[list[str]]
    lines: list[int]


@formats.register("conll")
class Conll(FileFormat):
    """One word per line; tabs (or spaces, in a file without tabs) separate columns, blank lines sentences.

    `header` names the columns; without it the first one is `words` and the last one `tags`. Lines that begin with `#`
    and have no tab are comments in a file with tabs. In a file without tabs, `# NAME = …` and `# id …` before the first
    word of a sentence are.
    Source: Tjong Kim Sang & De Meulder 2003 (CoNLL 2003), section 2; https://universaldependencies.org/format.html
    (CoNLL-U).
    """

    extensions: ClassVar[tuple[str, ...]] = (".conll", ".conllu", ".iob", ".bio")
    heeds: ClassVar[tuple[str, ...]] = ("header",)
    names_files: ClassVar[bool] = False

    def rows(self, line_range: LineRange, options: ReadOptions, wanted: Collection[str] | None = None) -> Iterator[Row]:
        """Yield each sentence as a row, with one list per column.

        Raises:
            ValueError: a line has another number of columns than the first one, or than `header`, or an empty word; or
                `header` does not name the columns of CoNLL-U, whose first one is no word.
        """
        for sentence in sentences(line_range, options):
            width = len(sentence.words[0])
            if not options.header and width >= len(COLUMNS) and are_numbered([word[0] for word in sentence.words]):
                found = f"the first of {width} columns has the numbers of words"
                remedy = f"header: [{', '.join(COLUMNS)}] and columns: {{words: form, tags: upos}}"
                raise ValueError(
                    f"{line_range.path}: line {sentence.lines[0]}: {found}; name the columns; for CoNLL-U: {remedy}"
                )
            header = options.header or ((WORDS, TAGS) if width > 1 else (WORDS,))
            numbers = range(width) if options.header else (0, width - 1)[: len(header)]
            yield {name: [word[i] for word in sentence.words] for name, i in zip(header, numbers, strict=True)}

    def where(self, line_range: LineRange, options: ReadOptions, row: int, entry: int | None) -> str | None:
        sentence = next(itertools.islice(sentences(line_range, options), row - 1, None))
        return f"{line_range.path}: line {sentence.lines[(entry or 1) - 1]}"


def are_numbered(words: Sequence[str]) -> bool:
    """Whether the words of a sentence are its word numbers, as in CoNLL-U: 1, 2-3, 2, 3, 3.1, …"""
    numbers = all(re.fullmatch(r"\d+([.-]\d+)?", word) for word in words)
    return numbers and len(words) > 1 and re.match(r"1\b", words[0]) is not None


def sentences(line_range: LineRange, options: ReadOptions) -> Iterator[Sentence]:
    """Yield every sentence.

    Raises:
        ValueError: a line has another number of columns than the first one, or than `header`, or an empty word; or a
            sentence does not end.
    """
    numbered = None if options.header is None or NUMBER not in options.header else options.header.index(NUMBER)
    wanted, tabs, sentence = len(options.header or ()), has_tabs(line_range), Sentence([], [])
    for number, line in enumerate(read_lines(line_range), line_range.line):
        if not line.strip() or line.startswith(DOCUMENT):
            if sentence.words:
                yield sentence
            sentence = Sentence([], [])
            continue
        if is_comment(line, tabs, first=not sentence.words):
            continue
        # a space after a tag would make it a different tag
        fields = [field.strip() for field in line.split("\t")] if tabs else line.split()
        wanted = wanted or len(fields)
        if len(fields) != wanted or not fields[0]:
            found = f"{counted(len(fields), 'column')}, expected {wanted}" if len(fields) != wanted else "an empty word"
            why = "a sentence ends with a blank line, and 'header' names the columns"
            raise ValueError(f"{line_range.path}: line {number}: {found}; {why}")
        if numbered is None or fields[numbered].isdecimal():
            sentence.words.append(fields)
            sentence.lines.append(number)
        if len(sentence.words) > LONGEST:
            said = f"a sentence of more than {LONGEST:,} words; a sentence ends with a blank line"
            raise ValueError(f"{line_range.path}: line {number}: {said}")
    if sentence.words:
        yield sentence


def is_comment(line: str, tabs: bool, first: bool) -> bool:
    """Whether a line is a comment, given whether it may be a sentence's first line: `#` can also be a word."""
    if tabs:
        return line.startswith("#") and "\t" not in line
    return first and COMMENT.match(line) is not None


def has_tabs(line_range: LineRange) -> bool:
    """Whether the file has tabs: decided by the first line that is not blank and does not begin with `#`."""
    return "\t" in next(filter(holds_word, read_lines(line_range)), "")


def holds_word(line: str) -> bool:
    return bool(line.strip()) and not line.startswith(("#", DOCUMENT))
