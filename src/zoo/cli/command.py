"""How a command runs: its options parsed, its log on standard error, and one place for exit statuses."""

import functools
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import typer
from rich.console import Console

from zoo.cli.main import DONE, FAILED, WRONG, is_main_process
from zoo.cli.table import COMMANDS, load
from zoo.cli.visible import visible
from zoo.training.supervision.stopping import border

errors = Console(stderr=True, soft_wrap=True, highlight=False)


class Printed(logging.Handler):
    """Prints each record as one line on standard error, above a progress bar where there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        style = "yellow" if record.levelno >= logging.WARNING else None
        errors.print(visible(self.format(record)), style=style, markup=False)


def run_command(name: str, arguments: list[str]) -> None:
    """One command with its own help and options."""
    # what one process says, the others would only say again
    level = logging.WARNING if is_main_process() else logging.CRITICAL
    logging.basicConfig(level=level, format="%(message)s", handlers=[Printed()])
    if is_main_process():
        logging.getLogger("zoo").setLevel(logging.INFO)
    place, about = COMMANDS[name]
    command = load(place)
    border()  # libraries that are imported catch everything
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(help=about, context_settings={"help_option_names": ["-h", "--help"]})(with_status(command))
    app(args=arguments, prog_name=f"zoo {name}")


def with_status(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with what it raises turned into one message and an exit status."""

    @functools.wraps(command)
    def guarded(*words: Any, **options: Any) -> None:
        try:
            command(*words, **options)
        except ValueError as mistake:
            complain(str(mistake))
            sys.exit(WRONG)
        except BrokenPipeError:  # whoever read our output has seen enough; Python flushes it once more at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(DONE)
        except (OSError, RuntimeError) as failure:
            complain(str(failure))
            sys.exit(FAILED)

    return guarded


def complain(message: str) -> None:
    """Say why the command ends, once for all processes."""
    if is_main_process():
        errors.print(visible(f"error: {message}"), style="red", markup=False)
