"""zoo evaluate."""

from typing import Annotated

import typer
from rich.table import Table

from zoo.cli.options import Checkpoint, Data, Json, Set, console, print_json, read_sets, refuse_rest, split_sets
from zoo.config import merge
from zoo.data.task import load_task
from zoo.hub.checkpoint import load_checkpoint
from zoo.inference.measure import measure, on_task
from zoo.models.generation.settings import parse_generate


def evaluate(
    checkpoint: Checkpoint,
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="The run's own, unless given.")] = None,
    split: Annotated[str, typer.Option("--split", metavar="NAME", help="train, validation or test.")] = "validation",
    sets: Set = [],  # noqa: B006
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Measure a checkpoint on a split of a task."""
    trees, rest = split_sets(read_sets(sets), "generate")
    refuse_rest(rest, "evaluate", "generate.…")
    loaded = load_checkpoint(checkpoint)
    if task is not None:
        loaded = on_task(loaded, load_task(task))
    generate = parse_generate(merge(loaded.task.generate, trees["generate"]))
    found = {"split": split, **measure(loaded, split, data, generate)}
    if as_json:
        return print_json(found)
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in found.items():
        table.add_row(name, f"{value:.4f}" if isinstance(value, float) else str(value))
    console.print(table)
