"""zoo evaluate."""

import functools
from pathlib import Path
from typing import Annotated

import typer

from zoo.cli.options import Batch, Checkpoint, Data, Device, Json, SetGenerate, parse_path, read_section
from zoo.cli.output import say_json, say_rows
from zoo.cli.progress import bars
from zoo.config import as_tree, merge
from zoo.data.task import load_task
from zoo.devices.choose import EXACT, choose_placement
from zoo.devices.precision import AUTO
from zoo.hub.checkpoint import load_checkpoint
from zoo.inference.evaluate_split import Reporting, compares_texts, evaluate_split, on_task
from zoo.inference.model_inputs import BATCH
from zoo.models.generation.settings import parse_generate
from zoo.runs.metrics import finite_only

PREDICTIONS = "Write the prediction for each row as a JSON line, in the order of the data."
AS_VALIDATED = "auto (as the run's validation), float32, bfloat16 or float16; weights stay float32."


def evaluate(
    checkpoint: Checkpoint,
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="A task (default: the run's own).")] = None,
    split: Annotated[str, typer.Option("--split", metavar="NAME", help="train, validation or test.")] = "validation",
    sets: SetGenerate = [],  # noqa: B006
    data: Data = None,
    device: Device = AUTO,
    precision: Annotated[str, typer.Option("--precision", metavar="PRECISION", help=AS_VALIDATED)] = AUTO,
    batch: Batch = BATCH,
    predictions: Annotated[
        Path | None, typer.Option("--predictions", metavar="FILE", help=PREDICTIONS, parser=parse_path)
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure a checkpoint on a split of a task."""
    changes = as_tree(read_section(sets, "generate", "evaluate"))
    loaded = load_checkpoint(checkpoint, choose_placement(device, EXACT))
    if task is not None:
        loaded = on_task(loaded, load_task(task))
    generate = parse_generate(merge(loaded.task.generate, changes))
    if changes:
        loaded.mixture.refuse_generate()
        if predictions is None and not compares_texts(loaded):
            raise ValueError(
                "--set generate.…: no metric of the task compares texts, so it has no effect; leave it out"
            )
    with bars() as drawn:
        progress = functools.partial(drawn.evaluate, split)
        found = {
            "split": split,
            **evaluate_split(loaded, split, data, generate, precision, batch, Reporting(progress, predictions)),
        }
    if as_json:
        return say_json(finite_only(found))  # a perplexity may be infinite, which JSON cannot hold
    say_rows((name, f"{value:.4f}" if isinstance(value, float) else value) for name, value in found.items())
