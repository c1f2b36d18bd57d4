"""How a command runs: its options parsed, its log on standard error, and one place for exit statuses."""

import errno
import functools
import logging
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import typer

from zoo.cli.early import check_words
from zoo.cli.main import DONE, FAILED, WRONG, discard, is_main_process, launched_together
from zoo.cli.table import COMMANDS, TOGETHER
from zoo.cli.visible import Printed, complain
from zoo.late import load
from zoo.training.supervision.stopping import raise_if_stopped

DEBUG = "--debug shows the traceback of an error."
EXPECTED = (OSError, RuntimeError)  # failures whose message says all that a user needs
WITH_HANDLERS = ("datasets", "huggingface_hub")  # libraries that print what they log; the root would print it again
logger = logging.getLogger(__name__)


def run_command(name: str, arguments: list[str], debug: bool = False) -> None:
    """One command with its own help and options; of processes that were launched together most need one."""
    alone = name not in TOGETHER and launched_together() > 1
    if alone and not is_main_process():
        return
    # what one process says, the others would only say again
    level = logging.WARNING if is_main_process() else logging.CRITICAL
    logging.basicConfig(level=level, format="%(message)s", handlers=[Printed()])
    for library in WITH_HANDLERS:
        logging.getLogger(library).propagate = False
    if is_main_process():
        logging.getLogger("zoo").setLevel(logging.INFO)
    else:  # torch reads it when it is imported, and would show its C++ stack wherever process 0 is gone
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    if alone:
        logger.info("zoo %s works in one process: process 0 of %d; the rest do nothing", name, launched_together())
    with_status(parse, debug)(name, arguments, debug)


def parse(name: str, arguments: list[str], debug: bool) -> None:
    """Check the words, import the command and call it."""
    check_words(name, arguments)
    place, about = COMMANDS[name]
    command = load(place)
    raise_if_stopped()  # libraries that are imported catch everything
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    settings = {"help_option_names": ["-h", "--help"]}
    # inside typer, too, which would end a broken pipe in its own way
    app.command(help=about, epilog=DEBUG, context_settings=settings)(with_status(command, debug))
    try:
        app(args=arguments, prog_name=f"zoo {name}", standalone_mode=False)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer's own answer to it, where it prints the help
            raise end.__context__ from None
        raise


def with_status(command: Callable[..., None], debug: bool = False) -> Callable[..., None]:
    """The command, with what it raises turned into one message and an exit status.

    A ValueError is the user's mistake: zoo raises it for nothing else, and turns one that escapes from the work into
    a RuntimeError. So is a name that no file can have, such as a text in place of a folder. Everything else is a
    failure of the work.
    """

    @functools.wraps(command)
    def guarded(*words: Any, **options: Any) -> None:
        try:
            command(*words, **options)
        except BrokenPipeError:  # whoever read our output has seen enough
            discard(sys.stdout)
            sys.exit(DONE)
        except Exception as error:
            raise_if_stopped()  # numpy and others, whose import a signal broke off, raise errors of their own
            if is_main_process():
                complain(f"{traceback.format_exc() if debug else ''}error: {describe(error, debug)}")
            sys.exit(WRONG if is_mistake(error) else FAILED)

    return guarded


def is_mistake(error: Exception) -> bool:
    """Whether the request was wrong."""
    return isinstance(error, ValueError | typer.TyperException) or is_of_a_name(error)


def is_of_a_name(error: Exception) -> bool:
    """Whether the system knows no file of such a long name."""
    return isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG


def describe(error: Exception, debug: bool) -> str:
    """What an error says; of one that nobody expected also what it is."""
    if isinstance(error, typer.TyperException):
        return error.format_message()
    if isinstance(error, OSError) and is_of_a_name(error):
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, (ValueError, *EXPECTED)) and str(error):
        return str(error)
    return f"{type(error).__name__}: {error}{'' if debug else f' ({DEBUG[:-1]})'}"
