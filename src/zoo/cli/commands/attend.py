"""zoo attend."""

from pathlib import Path
from typing import Annotated

import typer

from zoo.cli.options import EXACT_PRECISION, Checkpoint, Device, parse_path
from zoo.cli.output import say
from zoo.devices.choose import EXACT, choose_placement
from zoo.devices.precision import AUTO
from zoo.hub.checkpoint import load_checkpoint
from zoo.inference.attend import attend as run_attend
from zoo.models.generation.settings import parse_generate
from zoo.report.attention import check_output, write_maps
from zoo.runs.saved import normalize_path

TEXT = "The input: a text, or for an image model an image file. With --image: the caption."
TARGET = "The output text, or the second text of a pair (default: what the model generates)."
IMAGE = "An image, for a captioner or another image model."
OUTPUT = "An interactive page (.html) or an image (.png)."


def attend(
    checkpoint: Checkpoint,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help=OUTPUT, parser=parse_path)],
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help=TEXT)] = None,
    target: Annotated[str | None, typer.Option("--target", metavar="TEXT", help=TARGET)] = None,
    image: Annotated[str | None, typer.Option("--image", metavar="FILE", help=IMAGE)] = None,
    device: Device = AUTO,
    precision: Annotated[str, typer.Option("--precision", metavar="PRECISION", help=EXACT_PRECISION)] = EXACT,
) -> None:
    """Draw a model's attention weights on a text or an image."""
    check_output(output, text, image)
    loaded = load_checkpoint(checkpoint, choose_placement(device, precision))
    found = run_attend(loaded, text, target, image, parse_generate(loaded.task.generate))
    write_maps(found, normalize_path(Path(checkpoint)).name, output)  # `.` and `..` name no folder
    say(output)
