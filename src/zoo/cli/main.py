"""The first word of the command line: help, version or a command; nothing else is imported for that."""

import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO

from zoo.cli.table import COMMAND, COMMANDS, VERSION
from zoo.lazy_import import import_object
from zoo.training.supervision.stopping import Stopped, stop_at_once
from zoo.wording import nearest

DONE, FAILED, WRONG = 0, 1, 2  # exit statuses; WRONG: the request cannot be met
HELP = """Usage: zoo COMMAND …; zoo COMMAND --help lists its options

Pretrain your own Transformer variant, fine-tune it, and publish it for plain transformers.

{commands}

zoo --version prints the version. With --debug, any command shows the traceback of an error.
"""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its status: 0 done, 1 the work failed, 2 the request was wrong.

    SIGINT, SIGTERM and SIGHUP end it at any time with 130, 143 or 129, even during imports, which take seconds.
    """
    open_streams()
    if isinstance(sys.stdout, TextIOWrapper):  # escape characters that the output's encoding lacks, instead of failing
        sys.stdout.reconfigure(errors="backslashreplace")
    arguments, debug = take_debug(sys.argv[1:] if arguments is None else arguments)
    word = arguments[0] if arguments else "--help"
    if word in ("--help", "-h"):
        write_out(HELP.format(commands="\n".join(f"  {n:10}{about}" for n, (_, about) in COMMANDS.items())))
    elif word == "--version":
        write_out(f"zoo {import_object(VERSION)}\n")
    elif word in COMMANDS:
        try:
            with stop_at_once():
                import_object(COMMAND)(word, arguments[1:], debug)
        except Stopped as stopped:
            if is_main_process():
                write_error(str(stopped))
            sys.exit(stopped.status)
    else:
        allowed = ", ".join(COMMANDS)
        shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in word)
        write_error(f"zoo: unknown command '{shown}'{nearest(word, COMMANDS)}; allowed: {allowed}")
        sys.exit(WRONG)


def write_out(text: str) -> None:
    """Write to standard output, which may be closed, full, or a pipe whose reader has gone."""
    try:
        if sys.stdout is not None:
            sys.stdout.write(text)
            sys.stdout.flush()
    except BrokenPipeError:
        redirect_to_null(sys.stdout)
    except OSError as error:
        redirect_to_null(sys.stdout)
        write_error(f"standard output: {error.strerror}")
        sys.exit(FAILED)


def write_error(message: str) -> None:
    """Write an error to standard error; if its disk is full or its terminal has gone, the exit status alone tells."""
    try:
        sys.stderr.write(f"error: {message}\n")
        sys.stderr.flush()
    except OSError:
        with suppress(AttributeError, OSError):  # a program may have replaced sys.stderr by an object that is no file
            redirect_to_null(sys.stderr)


def open_streams() -> None:
    """Connect standard streams that are closed to the null device.

    Else the next file that is opened, such as a checkpoint, would get the number of standard error, to which libraries
    in C write. `sys.stdout` and `sys.stdin` stay None.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest number that is free
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", errors="backslashreplace")  # as Python opens standard error


def redirect_to_null(stream: TextIO) -> None:
    """Redirect a stream to the null device: Python flushes what it still holds at exit, which would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def take_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """Return the arguments without `--debug`, and whether it was among them; after `--` it is a text."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = [word for word in arguments[:end] if word != "--debug"]
    return [*options, *arguments[end:]], len(options) < end


def is_main_process() -> bool:
    """Whether this process prints for all that were launched together; a process without a launcher does."""
    return os.environ.get("RANK", "0") == "0" or "WORLD_SIZE" not in os.environ or "MASTER_ADDR" not in os.environ


def launched_together() -> int:
    """Return how many processes a launcher started together, from its environment variables; 1 without a launcher."""
    size = os.environ.get("WORLD_SIZE", "1")
    return int(size) if size.isdecimal() and "MASTER_ADDR" in os.environ else 1
