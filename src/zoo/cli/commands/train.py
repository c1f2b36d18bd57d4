"""zoo pretrain and zoo finetune."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from zoo.cli.main import is_main_process
from zoo.cli.options import Changes, Checkpoint, Data, Model, Set, output_path
from zoo.cli.progress import bars
from zoo.cli.visible import complain, say
from zoo.config import parse_set
from zoo.experiments.finetune import finetune as run_finetune
from zoo.experiments.pretrain import pretrain as run_pretrain
from zoo.experiments.request import Request
from zoo.experiments.session import Watcher
from zoo.hub.checkpoint import resolve
from zoo.training.state import State

RUN = "Folder of the run: new or empty, unless --resume."
RESUME = "Continue the run that is in the folder, with the changes that it was started with."
Task = Annotated[str, typer.Argument(metavar="TASK", help="A name from `zoo list tasks`, or a path to a YAML file.")]
Out = Annotated[Path, typer.Option("-o", "--output", metavar="RUN", help=RUN, parser=output_path)]
Resume = Annotated[bool, typer.Option("--resume", help=RESUME)]


def pretrain(
    model: Model,
    task: Task,
    output: Out,
    changes: Changes = [],  # noqa: B006
    sets: Set = [],  # noqa: B006
    resume: Resume = False,
    data: Data = None,
) -> None:
    """Train a model from scratch on a task."""
    request = ask(model, task, output, [*sets, *changes], resume, data)
    watch(lambda watcher: run_pretrain(request, watcher), request.folder)


def finetune(
    checkpoint: Checkpoint,
    task: Task,
    output: Out,
    changes: Changes = [],  # noqa: B006
    sets: Set = [],  # noqa: B006
    resume: Resume = False,
    data: Data = None,
) -> None:
    """Train a checkpoint further, on another task."""
    request = ask(checkpoint, task, output, [*sets, *changes], resume, data)
    saved = resolve(checkpoint)
    watch(lambda watcher: run_finetune(saved, request, watcher), request.folder)


def ask(start: str, task: str, output: Path, changes: list[str], resume: bool, data: Path | None) -> Request:
    """What the words of a training command ask for.

    Raises:
        ValueError: a change is not of the form KEY=VALUE.
    """
    return Request(start, task, output, [parse_set(text) for text in changes], resume, data)


def watch(work: Callable[[Watcher], State], output: Path) -> None:
    """Train with bars to look at; say what came out and where it lies."""
    with bars() as drawn:
        state = work(Watcher(drawn.tokenise, functools.partial(drawn.evaluate, "validation"), drawn.step))
    if not is_main_process():
        return
    if state.best is not None:
        complain(f"best: step {state.best['step']}, {state.best['metric']} {state.best['value']:.4f}", style=None)
    say(f"{output} ({state.step} steps)")
