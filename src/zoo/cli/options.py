"""Options that several commands take."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from zoo.config import parse_set
from zoo.disk import expand_user
from zoo.experiments.request import Pair, by_section

CHECKPOINT = "A run, a checkpoint folder inside one, a Hugging Face folder, or hub:ORG/NAME."
Checkpoint = Annotated[str, typer.Argument(metavar="CHECKPOINT", help=CHECKPOINT)]
MODEL = "A name from `zoo list models`, or a path to a YAML file."
Model = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL)]
SET = "Change one setting, such as dropout=0 or training.steps=300; repeatable."
Set = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help=SET)]
SET_GENERATE = "Change how text is generated, such as generate.beams=4; repeatable."
SetGenerate = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help=SET_GENERATE)]
SET_TASK = "Change one setting of the task, such as task.length=512; repeatable."
SetTask = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help=SET_TASK)]
Changes = Annotated[list[str], typer.Argument(metavar="[KEY=VALUE]", help="Changes of settings, as with --set.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
DEVICE = "auto (CUDA, else MPS, else the CPU), cpu, cuda, cuda:1 or mps."
Device = Annotated[str, typer.Option("--device", metavar="DEVICE", help=DEVICE)]
PRECISION = "auto (bfloat16 where the device has it), float32, bfloat16 or float16."
Precision = Annotated[str, typer.Option("--precision", metavar="PRECISION", help=PRECISION)]
EXACT_PRECISION = "float32, bfloat16, float16 or auto (bfloat16 where the device has it)."
Batch = Annotated[int, typer.Option("--batch", metavar="N", help="Texts or sequences per forward pass.")]
DATA = "Folder of the task's files (default: $ZOO_DATA, then the working directory)."


def parse_path(text: str) -> Path:
    """Parse a path."""
    if not text.strip():  # Path("") is the working directory
        raise typer.BadParameter("it is empty; give a path")
    return expand_user(text)  # a shell does not expand the ~ of --output=~/runs


Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help=DATA, parser=parse_path)]


def read_section(texts: Sequence[str], section: str, command: str) -> list[Pair]:
    """Return the changes of a command that reads a single section of the settings.

    Raises:
        ValueError: a change is in another section.
    """
    pairs = [parse_set(text) for text in texts]
    for path, _ in pairs:
        if path[0] != section:
            raise ValueError(f"--set {'.'.join(path)}: zoo {command} does not read it; allowed: {section}.…")
    return by_section(pairs)[section]
