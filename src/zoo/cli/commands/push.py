"""zoo push."""

from typing import Annotated

import typer

from zoo.cli.options import Checkpoint
from zoo.cli.visible import say
from zoo.hub.publishing.push import push as run_push

NAME = "Of the repository; it is made where it is not there."
PRIVATE = "Make a new repository private."


def push(
    checkpoint: Checkpoint,
    name: Annotated[str, typer.Argument(metavar="ORG/NAME", help=NAME)],
    private: Annotated[bool, typer.Option("--private", help=PRIVATE)] = False,
) -> None:
    """Export a checkpoint and publish it on the Hugging Face hub, all at once."""
    for line in run_push(checkpoint, name, private).lines():
        say(line)
