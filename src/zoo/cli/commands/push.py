"""zoo push."""

from typing import Annotated

import typer

from zoo.cli.options import Checkpoint
from zoo.cli.output import say
from zoo.hub.publishing.push import push as run_push

NAME = "The repository; zoo creates it if it is missing."
PRIVATE = "Make a new repository private."


def push(
    checkpoint: Checkpoint,
    name: Annotated[str, typer.Argument(metavar="ORG/NAME", help=NAME)],
    private: Annotated[bool, typer.Option("--private", help=PRIVATE)] = False,
) -> None:
    """Export a checkpoint and publish it on the Hugging Face Hub."""
    for line in run_push(checkpoint, name, private).lines():
        say(line)
