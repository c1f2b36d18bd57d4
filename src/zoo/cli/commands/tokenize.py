"""zoo tokenize."""

from typing import Annotated

import typer

from zoo.cli.options import Changes, Data, SetTask, read_section
from zoo.cli.output import say
from zoo.cli.progress import bars
from zoo.data.home import home
from zoo.data.processes import processes_for
from zoo.data.store.filling import Filling, Share
from zoo.data.tokenizers.tokenizer import BACKEND_FILE, Tokenizer
from zoo.experiments.tokenize import plan_filling
from zoo.lazy_import import import_object
from zoo.wording import counted

RESOLVE, NO_TOKENIZER = "zoo.hub.checkpoint:resolve", "zoo.inference.loaded:NO_TOKENIZER"  # import torch
TASK = "A name from `zoo list tasks`, or a path to a YAML file."
TOKENIZER = "Use the tokenizer of a run, a checkpoint, a Hugging Face folder or hub:ORG/NAME, not the task's."
PART = "Do part I of N, for N machines or processes (default: everything, on all cores)."


def tokenize(
    task: Annotated[str, typer.Argument(metavar="TASK", help=TASK)],
    changes: Changes = [],  # noqa: B006
    sets: SetTask = [],  # noqa: B006
    tokenizer: Annotated[str | None, typer.Option("--tokenizer", metavar="CHECKPOINT", help=TOKENIZER)] = None,
    part: Annotated[str | None, typer.Option("--part", metavar="I/N", help=PART)] = None,
    data: Data = None,
    retrain: Annotated[bool, typer.Option("--retrain", help="Train the task's tokenizer again.")] = False,
) -> None:
    """Fill the token store of a task ahead of a run."""
    share = None if part is None else Share.parse(part)
    read = read_section([*sets, *changes], "task", "tokenize")
    filling = plan_filling(task, read, data, load_tokenizer(tokenizer), retrain)
    workers = processes_for(len(filling.missing)) if share is None else 1
    if workers > 1:
        filling.fill_together(workers)
    with bars() as drawn:
        filling.fill(share or Share(), drawn.tokenize)
    report(filling)


def load_tokenizer(checkpoint: str | None) -> Tokenizer | None:
    """Return a checkpoint's tokenizer; None without a checkpoint.

    Raises:
        ValueError: there is no such checkpoint, or it has no tokenizer.
    """
    if checkpoint is None:
        return None
    saved = import_object(RESOLVE)(checkpoint)
    if BACKEND_FILE not in saved.tokenizer:
        raise ValueError(import_object(NO_TOKENIZER))
    return Tokenizer.from_files(saved.tokenizer, str(saved.folder))


def report(filling: Filling) -> None:
    """Print what the token store holds now."""
    documents, left_out = filling.count()
    counts = ", ".join(f"{split} {count:,}" for split, count in documents.items())
    missing = len(filling.missing)
    left = f", {missing} still missing" if missing else ""
    filtered = f"; source.filter leaves out {counted(left_out, 'row')} of train" if left_out else ""
    say(f"{home()}: {counted(len(filling.distinct), 'shard')}{left}; documents: {counts}{filtered}")
