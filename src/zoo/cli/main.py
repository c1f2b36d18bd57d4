"""The command line: one table of commands, each imported when it is called, and one place for exit statuses."""

import functools
import logging
import sys
from collections.abc import Callable
from typing import Any

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.table import Table

import zoo
from zoo.cli.table import COMMANDS, load
from zoo.registry import nearest

errors = Console(stderr=True, soft_wrap=True, highlight=False)
DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its status: 0 done, 1 the work failed, 2 the request was wrong."""
    arguments = sys.argv[1:] if arguments is None else arguments
    word = arguments[0] if arguments else "--help"
    if word in ("--help", "-h"):
        show_help()
    elif word == "--version":
        typer.echo(f"zoo {zoo.__version__}")
    elif word not in COMMANDS:
        complain(f"zoo: unknown command '{word}'{nearest(word, COMMANDS)}; allowed: {', '.join(COMMANDS)}")
        sys.exit(WRONG)
    else:
        run(word, arguments[1:])


def show_help() -> None:
    """All commands in a line each; nothing of them is imported."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2))
    for name, (_, about) in COMMANDS.items():
        table.add_row(name, about)
    console = Console(highlight=False)
    console.print("Usage: zoo COMMAND …, and zoo COMMAND --help for what it takes\n", markup=False)
    console.print("Pretrain your own Transformer variant, fine-tune it, and publish it for plain transformers.\n")
    console.print(table)


def run(name: str, arguments: list[str]) -> None:
    """One command with its own help and options."""
    handler = RichHandler(console=errors, show_time=False, show_path=False, show_level=False, markup=False)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
    logging.getLogger("zoo").setLevel(logging.INFO)
    place, about = COMMANDS[name]
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(help=about, context_settings={"help_option_names": ["-h", "--help"]})(with_status(load(place)))
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
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except BrokenPipeError:  # whoever read our output has seen enough
            sys.exit(DONE)
        except (OSError, RuntimeError) as failure:
            complain(str(failure))
            sys.exit(FAILED)

    return guarded


def complain(message: str) -> None:
    errors.print(f"error: {message}", style="red", markup=False)
