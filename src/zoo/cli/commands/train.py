"""zoo pretrain and zoo finetune."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from zoo.cli.main import is_main_process
from zoo.cli.options import MODEL, Changes, Checkpoint, Data, Set, parse_path
from zoo.cli.output import print_to_stderr, say, say_rows
from zoo.cli.progress import bars
from zoo.config import parse_set
from zoo.data.task_list import listed_tasks
from zoo.experiments.finetune import check_finetuning
from zoo.experiments.finetune import finetune as run_finetune
from zoo.experiments.pretrain import pretrain as run_pretrain
from zoo.experiments.request import Request
from zoo.experiments.session import Watcher
from zoo.experiments.table import ExperimentTable, Outcome, mean_score, over_tasks
from zoo.hub.checkpoint import resolve
from zoo.runs.saved import SavedRun
from zoo.training.state import State
from zoo.wording import counted

RUN = "Folder of the run: new or empty, unless --resume."
RESUME = "Continue the run in the folder, with its original changes of settings."
Task = Annotated[str, typer.Argument(metavar="TASK", help="A name from `zoo list tasks`, or a path to a YAML file.")]
TASK_AND_CHANGES = "A task as in `zoo list tasks` (without --from), then changes of settings, as with --set."
ModelOrTask = Annotated[str, typer.Argument(metavar="MODEL", help=f"{MODEL} With --from: the TASK.")]
Words = Annotated[list[str], typer.Argument(metavar="[TASK] [KEY=VALUE]", help=TASK_AND_CHANGES)]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="CHECKPOINT", help="Continue pretraining a checkpoint; keeps its tokenizer."),
]
Out = Annotated[Path, typer.Option("-o", "--output", metavar="RUN", help=RUN, parser=parse_path)]
Resume = Annotated[bool, typer.Option("--resume", help=RESUME)]


def pretrain(
    model: ModelOrTask,
    output: Out,
    words: Words = [],  # noqa: B006
    sets: Set = [],  # noqa: B006
    checkpoint: From = None,
    resume: Resume = False,
    data: Data = None,
) -> None:
    """Train a model from scratch on a task, or continue to pretrain a checkpoint."""
    if checkpoint is not None:
        train_checkpoint(build_request(checkpoint, model, output, [*sets, *words], resume, data, "pretrain --from"))
        return
    if not words:
        raise typer.BadParameter("TASK is missing: give MODEL and TASK, or TASK and --from CHECKPOINT")
    task, *changes = words
    request = build_request(model, task, output, [*sets, *changes], resume, data, "pretrain")
    print_result(with_bars(lambda watcher: run_pretrain(request, watcher)), request.folder)


def finetune(
    checkpoint: Checkpoint,
    task: Task,
    output: Out,
    changes: Changes = [],  # noqa: B006
    sets: Set = [],  # noqa: B006
    resume: Resume = False,
    data: Data = None,
) -> None:
    """Fine-tune a checkpoint on a task."""
    train_checkpoint(build_request(checkpoint, task, output, [*sets, *changes], resume, data, "finetune"))


def train_checkpoint(request: Request) -> None:
    """Train a checkpoint on one task, or on each task of a list."""
    chosen = next((value for path, value in request.sets if path == ("task", "tasks")), None)
    tasks = listed_tasks(request.task, chosen)
    saved = resolve(request.start)
    if tasks is None:
        print_result(fine_tune(saved, request), request.folder)
    else:
        finetune_each(saved, over_tasks(request, tasks), request.task)


def finetune_each(saved: SavedRun, table: ExperimentTable, name: str) -> None:
    """Fine-tune on each of several tasks, and print a table of the results."""
    table.check(lambda request: check_finetuning(saved, request))
    outcomes = []
    for found in table.run_all(lambda request: fine_tune(saved, request), is_main=is_main_process()):
        outcomes.append(found)
        print_to_stderr(f"{found.name}: {format_metrics(found)}", style=None)
    if is_main_process():
        mean = mean_score(outcomes)
        rows = [row for found in outcomes for row in table_rows(found)]
        rows.append((f"mean of {len(outcomes)}", percent(mean), "", ""))
        say_rows(rows, name, ("task", "score", "metrics on validation", "run"))


def table_rows(found: Outcome) -> list[tuple[str, str, str, str]]:
    """Return a task's row of the table, and below it those of its files, which the mean does not include."""
    sampled = "" if found.sample is None else " (of the sample)"
    below = [(f"  {one.name}", percent(one.score), format_metrics(one) + sampled, "") for one in found.files]
    return [(found.name, percent(found.score), format_metrics(found), str(found.folder)), *below]


def fine_tune(saved: SavedRun, request: Request) -> State:
    """Fine-tune once, with progress bars."""
    return with_bars(lambda watcher: run_finetune(saved, request, watcher))


def format_metrics(found: Outcome) -> str:
    """Format the metrics of one task."""
    values = ", ".join(f"{name.rpartition('/')[2]} {value:.4f}" for name, value in found.values.items())
    return f"{values or '-'}{'' if found.sample is None else f' ({found.sample:,} examples)'}"


def percent(score: float | None) -> str:
    """Format a score with one decimal."""
    return "-" if score is None else f"{score:.1f}"


def build_request(
    start: str, task: str, output: Path, changes: list[str], resume: bool, data: Path | None, command: str
) -> Request:
    """Build the request of a training command from its arguments.

    Raises:
        ValueError: a change is not of the form KEY=VALUE.
    """
    return Request(start, task, output, [parse_set(text) for text in changes], resume, data, command=command)


def with_bars(work: Callable[[Watcher], State]) -> State:
    """Run a training with progress bars."""
    with bars() as drawn:
        return work(Watcher(drawn.tokenize, functools.partial(drawn.evaluate, "validation"), drawn.step))


def print_result(state: State, output: Path) -> None:
    """Print the result of a run and its folder."""
    if not is_main_process():
        return
    if state.best is not None:
        print_to_stderr(
            f"best: step {state.best['step']}, {state.best['metric']} {state.best['value']:.4f}", style=None
        )
    say(f"{output} ({counted(state.step, 'step')})")
