"""Progress on standard error: bars with the time left."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from zoo.cli.main import is_main_process
from zoo.cli.visible import errors
from zoo.experiments.session import Watcher
from zoo.runs.metrics import Line


@contextmanager
def bars() -> Iterator[Watcher]:
    """A watcher that draws a bar for tokenising each split and one for the steps."""
    note = TextColumn("{task.fields[note]}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), note)
    watched = is_main_process() and errors.is_terminal
    with Progress(*columns, console=errors, transient=True, disable=not watched) as progress:
        tasks: dict[str, int] = {}

        def draw(name: str, done: float, total: float, note: str = "") -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=total, note=note)
            progress.update(tasks[name], completed=done, total=total, note=note)  # type: ignore[arg-type]

        def step(line: Line) -> None:
            draw("training", line["step"], line["steps"], f"loss {line['loss']:.3f}")

        yield Watcher(lambda split, done, total: draw(f"tokenising {split}", done, total), step)
