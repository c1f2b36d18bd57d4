"""Run a command: parse its options, log to standard error, and turn errors into exit statuses."""

import errno
import functools
import logging
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from zoo.cli.main import DONE, FAILED, WRONG, is_main_process, launched_together, redirect_to_null
from zoo.cli.output import LogPrinter, errors, print_to_stderr
from zoo.cli.preflight import check_words
from zoo.cli.table import COMMANDS, MULTI_PROCESS
from zoo.lazy_import import import_object
from zoo.training.supervision.stopping import raise_if_stopped

DEBUG = "--debug shows the traceback of an error."
EXPECTED = (OSError, RuntimeError)  # failures whose message says all that a user needs
WITH_HANDLERS = ("datasets", "huggingface_hub")  # they print their own log; the root logger would repeat it
WITH_BARS = ("HF_DATASETS", "HF_HUB")  # as their environment variables begin
logger = logging.getLogger(__name__)


def run_command(name: str, arguments: list[str], debug: bool = False) -> None:
    """Run one command with its own help and options.

    Of processes that were launched together, only the main one runs it, unless the command is in MULTI_PROCESS.
    """
    alone = name not in MULTI_PROCESS and launched_together() > 1
    if alone and not is_main_process():
        return
    # the other processes would repeat what the main one logs
    level = logging.WARNING if is_main_process() else logging.CRITICAL
    logging.basicConfig(level=level, format="%(message)s", handlers=[LogPrinter()])
    for library in WITH_HANDLERS:
        logging.getLogger(library).propagate = False
    if is_main_process():
        logging.getLogger("zoo").setLevel(logging.INFO)
    else:  # read when torch is imported; else torch prints a C++ stack when process 0 is lost
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    if not (is_main_process() and errors.is_terminal):  # likewise; in a log, each tick of a bar is text
        for library in WITH_BARS:
            os.environ.setdefault(f"{library}_DISABLE_PROGRESS_BARS", "1")
    # likewise; NVIDIA's containers set it to 1, and a GPU would round the inputs of float32 products to TF32, 10 bits
    os.environ["TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"] = "0"
    if alone:
        logger.info("zoo %s works in one process: process 0 of %d; the rest do nothing", name, launched_together())
    with_status(parse, debug)(name, arguments, debug)


def parse(name: str, arguments: list[str], debug: bool) -> None:
    """Check the words, import the command and call it."""
    check_words(name, arguments)
    refuse_deleted_folder()
    place, about = COMMANDS[name]
    command = import_object(place)
    raise_if_stopped()  # a library may have swallowed a signal's exception while it was imported
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    settings = {"help_option_names": ["-h", "--help"]}
    # wrapped inside typer, too, which would handle a broken pipe differently
    app.command(help=about, epilog=DEBUG, context_settings=settings)(with_status(command, debug))
    try:
        app(args=arguments, prog_name=f"zoo {name}", standalone_mode=False)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer's own answer to it, where it prints the help
            raise end.__context__ from None
        raise


def refuse_deleted_folder() -> None:
    """Refuse a working directory that was deleted: there are no paths in it, and MKL could not load torch's library.

    Raises:
        ValueError: it was deleted.
    """
    try:
        Path.cwd()
    except FileNotFoundError:
        raise ValueError("the working directory was deleted; change to another one (cd)") from None


def with_status(command: Callable[..., None], debug: bool = False) -> Callable[..., None]:
    """Wrap a command so that what it raises becomes one message and an exit status.

    A ValueError is the user's mistake: zoo raises it for nothing else, and turns one that escapes from the work into
    a RuntimeError. So is a file name that is too long, such as a text in place of a folder. Everything else is a
    failure of the work.
    """

    @functools.wraps(command)
    def guarded(*words: Any, **options: Any) -> None:
        try:
            command(*words, **options)
            if sys.stdout is not None:
                sys.stdout.flush()  # at Python's end, a failure would be a second message and status 120
        except BrokenPipeError:  # the reader of our output has closed the pipe, as `head` does
            redirect_to_null(sys.stdout)
            sys.exit(DONE)
        except Exception as error:
            error = named_if_of_output(error)
            raise_if_stopped()  # numpy and others raise their own error if a signal interrupts their import
            if is_main_process():
                print_to_stderr(f"{traceback.format_exc() if debug else ''}error: {describe(error, debug)}")
            sys.exit(WRONG if is_mistake(error) else FAILED)

    return guarded


def named_if_of_output(error: Exception) -> Exception:
    """Return the error, or one that names standard output if that is what cannot be written, as typer prints help.

    What the output still holds is dropped: Python flushes it at exit, which would fail again.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as failure:
        redirect_to_null(sys.stdout)
        if isinstance(error, OSError) and error.errno == failure.errno:
            return OSError(f"standard output: {failure.strerror}")
    return error


def is_mistake(error: Exception) -> bool:
    """Whether an error means that the request was wrong."""
    return isinstance(error, ValueError | typer.TyperException) or is_name_too_long(error)


def is_name_too_long(error: Exception) -> bool:
    """Whether an error says that a file name is too long."""
    return isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG


def describe(error: Exception, debug: bool) -> str:
    """Return the message of an error; for an unexpected error, also its type."""
    if isinstance(error, typer.TyperException):
        return error.format_message()
    if isinstance(error, OSError) and is_name_too_long(error):
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, (ValueError, *EXPECTED)) and str(error):
        return str(error)
    return f"{type(error).__name__}: {error}{'' if debug else f' ({DEBUG[:-1]})'}"
