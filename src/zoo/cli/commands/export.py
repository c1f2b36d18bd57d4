"""zoo export."""

from pathlib import Path
from typing import Annotated

import typer

from zoo.cli.options import Checkpoint, Device, parse_path
from zoo.cli.output import say
from zoo.devices.choose import EXACT
from zoo.devices.precision import AUTO
from zoo.hub.api import export_on

PRECISION = "Precision of the check: float32 (auto means the same)."


def export(
    checkpoint: Checkpoint,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write: new or empty.", parser=parse_path)],
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="TARGET", help="A target that `zoo show MODEL` lists (default: the first)."),
    ] = None,
    device: Device = AUTO,
    precision: Annotated[str, typer.Option("--precision", metavar="PRECISION", help=PRECISION)] = EXACT,
) -> None:
    """Write a checkpoint as a folder that plain transformers loads."""
    if precision not in (AUTO, EXACT):
        raise ValueError(f"--precision: {precision}: the check of an export compares numbers in float32; leave it out")
    for line in export_on(checkpoint, folder, to, device).lines():
        say(line)
