"""zoo pretrain and zoo finetune."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from zoo.cli.command import errors
from zoo.cli.main import is_main_process
from zoo.cli.options import Checkpoint, Data, Model, Pair, Set, read_sets, split_sets
from zoo.cli.progress import bars
from zoo.experiments.finetune import finetune as run_finetune
from zoo.experiments.pretrain import pretrain as run_pretrain
from zoo.experiments.request import Request
from zoo.experiments.session import Watcher
from zoo.hub.checkpoint import resolve
from zoo.training.state import State

RUN = "Folder of the run: new or empty, unless --resume."
Task = Annotated[str, typer.Argument(metavar="TASK", help="A name from `zoo list tasks`, or a path to a YAML file.")]
Out = Annotated[Path, typer.Option("-o", "--output", metavar="RUN", help=RUN)]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run that is in the folder.")]


def pretrain(
    model: Model,
    task: Task,
    output: Out,
    sets: Set = [],  # noqa: B006
    resume: Resume = False,
    data: Data = None,
) -> None:
    """Train a model from scratch on a task."""
    request = make_request(task, output, sets, resume, data)
    watch(lambda watcher: run_pretrain(model, request, watcher), output)


def finetune(
    checkpoint: Checkpoint,
    task: Task,
    output: Out,
    sets: Set = [],  # noqa: B006
    resume: Resume = False,
    data: Data = None,
) -> None:
    """Train a checkpoint further, on another task."""
    request = make_request(task, output, sets, resume, data)
    saved = resolve(checkpoint)
    watch(lambda watcher: run_finetune(saved, request, watcher), output)


def make_request(task: str, output: Path, sets: list[str], resume: bool, data: Path | None) -> Request:
    """The command's words as a request; `generate.…` belongs to the task."""
    trees, rest = split_sets(read_sets(sets), "training")
    task_sets = [pair for path, value in rest if path[0] in ("task", "generate") for pair in pairs_of_task(path, value)]
    model_sets = [(path, value) for path, value in rest if path[0] not in ("task", "generate")]
    return Request(task, output, model_sets, task_sets, trees["training"], resume, data)


def pairs_of_task(path: tuple[str, ...], value: Any) -> list[Pair]:
    """`task.KEY=…`, `task={…}` or `generate.KEY=…` as pairs of the task file's own keys."""
    path = path[1:] if path[0] == "task" else path
    if path:
        return [(path, value)]
    if not isinstance(value, dict):
        raise ValueError(f"--set task: expected a map, got {value!r}; one key is set by task.KEY=VALUE")
    return [((str(key),), below) for key, below in value.items()]


def watch(work: Callable[[Watcher], State], output: Path) -> None:
    """Train with bars to look at; say what came out and where it lies."""
    with bars() as watcher:
        state = work(watcher)
    if not is_main_process():
        return
    if state.best is not None:
        errors.print(f"best: step {state.best['step']}, {state.best['metric']} {state.best['value']:.4f}")
    typer.echo(f"{output} ({state.step} steps)")
