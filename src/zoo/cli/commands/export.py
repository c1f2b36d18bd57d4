"""zoo export."""

from pathlib import Path
from typing import Annotated

import typer

from zoo.cli.options import Checkpoint, output_path
from zoo.cli.visible import say
from zoo.hub.api import export as run_export


def export(
    checkpoint: Checkpoint,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty.", parser=output_path)],
    to: Annotated[str | None, typer.Option("--to", metavar="TARGET", help="The first that fits, unless given.")] = None,
) -> None:
    """Write a checkpoint as a folder that plain transformers loads."""
    for line in run_export(checkpoint, folder, to).lines():
        say(line)
