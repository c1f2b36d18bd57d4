"""zoo pretrain and zoo finetune."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from zoo.cli.main import complain, errors
from zoo.cli.options import Data, Set, read_sets, split_sets
from zoo.cli.progress import bars
from zoo.config import Tree, merge
from zoo.hub.checkpoint import resolve
from zoo.training.finetune import finetune as run_finetune
from zoo.training.loop import State
from zoo.training.plan import Request
from zoo.training.pretrain import pretrain as run_pretrain
from zoo.training.session import Watcher
from zoo.training.stopping import Stopped

Model = Annotated[str, typer.Argument(help="A name from `zoo list models`, or a path to a YAML file.")]
Checkpoint = Annotated[str, typer.Argument(help="A run, a checkpoint folder inside one, or a Hugging Face folder.")]
Task = Annotated[str, typer.Argument(help="A name from `zoo list tasks`, or a path to a YAML file.")]
Out = Annotated[Path, typer.Option("-o", "--output", metavar="RUN", help="Folder of the run: new or empty, unless --resume.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run that is in the folder.")]


def pretrain(model: Model, task: Task, output: Out, sets: Set = [], resume: Resume = False, data: Data = None) -> None:  # noqa: B006
    """Train a model from scratch on a task."""
    request = make_request(task, output, sets, resume, data)
    watch(lambda watcher: run_pretrain(model, request, watcher), output)


def finetune(checkpoint: Checkpoint, task: Task, output: Out, sets: Set = [], resume: Resume = False, data: Data = None) -> None:  # noqa: B006
    """Train a checkpoint further, on another task."""
    request = make_request(task, output, sets, resume, data)
    saved = resolve(checkpoint)
    watch(lambda watcher: run_finetune(saved, request, watcher), output)


def make_request(task: str, output: Path, sets: list[str], resume: bool, data: Path | None) -> Request:
    """The command's words as a request; `generate.…` belongs to the task."""
    trees, rest = split_sets(read_sets(sets), "task", "training", "generate")
    task_sets: Tree = merge(trees["task"], {"generate": trees["generate"]}) if trees["generate"] else trees["task"]
    return Request(task, output, rest, task_sets, trees["training"], resume, data)


def watch(work: Callable[[Watcher], State], output: Path) -> None:
    """Train with bars to look at; say what came out and where it lies."""
    try:
        with bars() as watcher:
            state = work(watcher)
    except Stopped as stopped:
        complain(str(stopped))
        sys.exit(stopped.status)
    if state.best is not None:
        errors.print(f"best: step {state.best['step']}, {state.best['metric']} {state.best['value']:.4f}")
    typer.echo(f"{output} ({state.step} steps)")
