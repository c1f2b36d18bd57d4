"""All output to the terminal: escape sequences in texts of models and files are printed as text, not obeyed."""

import json
import logging
import sys
from codecs import lookup
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from unicodedata import category
from zlib import crc32

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from zoo.cli.main import redirect_to_null
from zoo.strict_yaml import parse_yaml


class PipeConsole(Console):
    """A console whose caller handles a closed pipe; rich would exit with status 1."""

    def on_broken_pipe(self) -> None:
        self._buffer.clear()  # unread output, which would else be written before the next lines
        raise


errors = PipeConsole(stderr=True, soft_wrap=True, highlight=False)
results = PipeConsole(highlight=False, soft_wrap=True)
# they change the direction of the text that follows
DIRECTION_CONTROLS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
LONGEST = 1 << 16  # width of a table in a file or a pipe
COLORS = ("red", "green", "yellow", "blue", "magenta", "cyan")  # of tags; a tag has the same color in every text


def escape_controls(text: str) -> str:
    """Return a text with its control characters written as `\\x1b`; line breaks and tabs stay."""
    return "".join(c if c in "\n\t" or is_harmless(c) else ascii(c)[1:-1] for c in text)


def is_harmless(character: str) -> bool:
    """Whether a terminal only displays a character, or shapes its neighbors.

    Spaces of any width, joiners and marks are part of texts: French, Persian, Hindi and emoji are written with them.
    """
    return character.isprintable() or (category(character) in ("Zs", "Cf") and character not in DIRECTION_CONTROLS)


def as_yaml(value: Any) -> str:
    """Format a plain value as one line of YAML; a single string stays without quotes."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{entry_as_yaml(key)}: {entry_as_yaml(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(entry_as_yaml, value))}]"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def entry_as_yaml(value: Any) -> str:
    """Format an entry of a list or a map; a string that YAML would read as anything else is quoted."""
    if not isinstance(value, str):
        return as_yaml(value)
    try:
        is_plain = parse_yaml(f"[{value}]", "") == [value]
    except ValueError:
        is_plain = False
    return value if is_plain else json.dumps(value, ensure_ascii=False)


@contextmanager
def explain_output_error() -> Iterator[None]:
    """Name standard output in the error if it cannot be written, and drop what it still holds; not for a closed pipe.

    Raises:
        OSError: its disk is full, for example.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        results._buffer.clear()
        redirect_to_null(sys.stdout)
        raise OSError(f"standard output: {error.strerror}") from None


@explain_output_error()
def say(text: object) -> None:
    """Print one line of a result on standard output."""
    typer.echo(escape_controls(str(text)))


@explain_output_error()
def say_rows(rows: Iterable[Iterable[object]], title: str | None = None, header: Sequence[str] = ()) -> None:
    """Print a table on standard output; no cell is cut, and in a file or a pipe each row is one line."""
    shown = title and Text(escape_controls(title), "table.title")  # `Text`: rich reads brackets in a str as markup
    table = Table(title=shown, title_justify="left", box=None, pad_edge=False, show_header=bool(header))
    for number, name in enumerate(header):
        table.add_column(escape_controls(name), style=None if number else "bold", no_wrap=number == 0)
    cells = [[Text(escape_controls(str(cell))) for cell in row] for row in rows]
    for row in cells:
        table.add_row(*row)
    if header:  # wrap names only if they take over half the width: rich would cut those that it may not wrap
        table.columns[0].no_wrap = 2 * max((row[0].cell_len for row in cells), default=0) <= results.width
    for column in table.columns:  # including columns that rows have added
        column.overflow = "fold"
    if not results.is_terminal:
        table.width = results.measure(table, options=results.options.update(max_width=LONGEST)).maximum
    results.print(table)


def say_spans(text: str, spans: Iterable[Mapping[str, Any]]) -> None:
    """Print a text with the tag after each of its spans, in color on a terminal.

    If spans overlap, as those of tokens for single bytes of one character do, only the first is shown.
    """
    shown, at = Text(), 0
    for span in spans:
        if span["start"] < at:
            continue
        shown.append(escape_controls(text[at : span["start"]]))
        shown.append(escape_controls(text[span["start"] : span["end"]]), "bold")
        shown.append(escape_controls(f"[{span['tag']}]"), COLORS[crc32(span["tag"].encode()) % len(COLORS)])
        at = span["end"]
    say_colored(shown.append(escape_controls(text[at:])))


def say_found(text: str) -> None:
    """Print the part of a text that was found, in color on a terminal."""
    say_colored(Text(escape_controls(text), "bold green"))


def say_colored(text: Text) -> None:
    """Print a text that is escaped already: in color on a terminal, else plain, since rich turns tabs into spaces."""
    if results.is_terminal:
        with explain_output_error():
            results.print(text)
    else:
        say(text.plain)


@explain_output_error()
def say_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    # if the output's encoding is not UTF-8, non-ASCII characters are written as JSON escapes
    whole = lookup(getattr(sys.stdout, "encoding", None) or "utf-8").name == "utf-8"
    text = json.dumps(value, indent=2, ensure_ascii=not whole, allow_nan=False)
    typer.echo("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def print_to_stderr(text: str, style: str | None = "red") -> None:
    """Print one line on standard error; if that is closed or its disk is full, the work goes on without it."""
    try:
        errors.print(escape_controls(text), style=style, markup=False)
    except OSError:
        with suppress(AttributeError, OSError):  # a program may have replaced sys.stderr by an object that is no file
            redirect_to_null(sys.stderr)


class LogPrinter(logging.Handler):
    """A logging handler that prints each record as one line on standard error, above any progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        print_to_stderr(self.format(record), "yellow" if record.levelno >= logging.WARNING else None)
