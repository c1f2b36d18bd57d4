"""zoo import."""

from pathlib import Path
from typing import Annotated

import typer

from zoo.cli.options import parse_path
from zoo.cli.output import say
from zoo.hub.checkpoint import import_checkpoint

SOURCE = "A Hugging Face folder, or hub:ORG/NAME."


def import_command(
    source: Annotated[str, typer.Argument(metavar="DIR", help=SOURCE)],
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run: new or empty.", parser=parse_path)],
) -> None:
    """Import a transformers checkpoint as a zoo run."""
    for line in import_checkpoint(source, run).lines():
        say(line)
