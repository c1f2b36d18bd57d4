"""The only way out to the terminal: escape sequences in texts of models and files are spelled out, not obeyed."""

import json
import logging
import sys
from codecs import lookup
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from unicodedata import category
from zlib import crc32

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from zoo.cli.main import discard
from zoo.strict_yaml import parse_yaml


class Piped(Console):
    """A console that leaves it to its caller what a closed pipe means; rich would end with status 1."""

    def on_broken_pipe(self) -> None:
        self._buffer.clear()  # what nobody has read; else the next lines would stand behind it
        raise


errors = Piped(stderr=True, soft_wrap=True, highlight=False)
results = Piped(highlight=False, soft_wrap=True)
TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # the order in which all that follows is written
LONGEST = 1 << 16  # of a table's lines in a file
COLOURS = ("red", "green", "yellow", "blue", "magenta", "cyan")  # of tags: one has the same colour in every text


def visible(text: str) -> str:
    """A text whose control characters are written as `\\x1b`; line breaks and tabs stay."""
    return "".join(c if c in "\n\t" or is_harmless(c) else ascii(c)[1:-1] for c in text)


def is_harmless(character: str) -> bool:
    """Whether a terminal does nothing with a character but write it, or its neighbours in another form.

    Spaces of any width, joiners and marks are part of texts: French, Persian, Hindi and emoji are written with them.
    """
    return character.isprintable() or (category(character) in ("Zs", "Cf") and character not in TURNING)


def spell(value: Any) -> str:
    """A plain value as YAML writes it in one line; a text that stands alone as it is."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{spell_entry(key)}: {spell_entry(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(spell_entry, value))}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def spell_entry(value: Any) -> str:
    """The same of an entry of a list or a map: a text that YAML would read as anything else stands in quotes."""
    if not isinstance(value, str):
        return spell(value)
    try:
        is_plain = parse_yaml(f"[{value}]", "") == [value]
    except ValueError:
        is_plain = False
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def say(text: object) -> None:
    """One line of a result, on standard output."""
    typer.echo(visible(str(text)))


def say_rows(rows: Iterable[Iterable[object]], title: str | None = None, header: Sequence[str] = ()) -> None:
    """A table of results on standard output; no cell is cut, and in a file or a pipe each row is one line."""
    shown = title and Text(visible(title), "table.title")  # as it is: brackets of a path are no markup
    table = Table(title=shown, title_justify="left", box=None, pad_edge=False, show_header=bool(header))
    for number, name in enumerate(header):
        table.add_column(visible(name), style=None if number else "bold", no_wrap=number == 0)
    cells = [[Text(visible(str(cell))) for cell in row] for row in rows]
    for row in cells:
        table.add_row(*row)
    if header:  # names stay whole where that leaves room; rich cuts what it may not wrap
        table.columns[0].no_wrap = 2 * max((row[0].cell_len for row in cells), default=0) <= results.width
    for column in table.columns:  # also of those that a row has added
        column.overflow = "fold"
    if not results.is_terminal:
        table.width = results.measure(table, options=results.options.update(max_width=LONGEST)).maximum
    results.print(table)


def say_spans(text: str, spans: Iterable[Mapping[str, Any]]) -> None:
    """A text with the tag behind each of its spans; in colour on a terminal.

    Of spans of the same characters, such as the tokens that spell the bytes of one, the first is shown.
    """
    shown, at = Text(), 0
    for span in spans:
        if span["start"] < at:
            continue
        shown.append(visible(text[at : span["start"]]))
        shown.append(visible(text[span["start"] : span["end"]]), "bold")
        shown.append(visible(f"[{span['tag']}]"), COLOURS[crc32(span["tag"].encode()) % len(COLOURS)])
        at = span["end"]
    say_coloured(shown.append(visible(text[at:])))


def say_found(text: str) -> None:
    """The part of a text that was found, in colour on a terminal."""
    say_coloured(Text(visible(text), "bold green"))


def say_coloured(text: Text) -> None:
    """A text that is visible already: in colour on a terminal, elsewhere with its tabs, which rich makes spaces of."""
    if results.is_terminal:
        results.print(text)
    else:
        say(text.plain)


def say_json(value: Any) -> None:
    """One JSON document on standard output."""
    # letters that the output's encoding lacks are written as JSON's own escapes
    whole = lookup(getattr(sys.stdout, "encoding", None) or "utf-8").name == "utf-8"
    text = json.dumps(value, indent=2, ensure_ascii=not whole, allow_nan=False)
    typer.echo("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def complain(text: str, style: str | None = "red") -> None:
    """One line on standard error; where its reader, its terminal or its disk is gone, the work goes on in silence."""
    try:
        errors.print(visible(text), style=style, markup=False)
    except OSError:
        with suppress(AttributeError, OSError):  # a program's own standard error may be no file
            discard(sys.stderr)


class Printed(logging.Handler):
    """Prints each record as one line on standard error, above a progress bar where there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        complain(self.format(record), "yellow" if record.levelno >= logging.WARNING else None)
