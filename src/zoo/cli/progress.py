"""Progress on standard error: bars with the time left on a terminal, else a log line every minute."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from zoo.cli.main import is_main_process
from zoo.cli.output import errors
from zoo.runs.metrics import Line

EVERY = 60.0  # seconds between two lines
logger = logging.getLogger(__name__)


class Bars:
    """Progress bars: one for tokenizing each split, one for each evaluation and one for the training steps.

    Args:
        progress: draws the bars; None: there is no terminal.
    """

    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress
        self.tasks: dict[str, TaskID] = {}
        self.began = self.said = 0.0

    def draw(self, name: str, done: float, total: float, note: str = "") -> None:
        """Update a bar; a full one is removed, so that the next one of its name estimates its own time left."""
        if self.progress is None:
            return
        if name not in self.tasks:
            self.tasks[name] = self.progress.add_task(name, total=total, note=note)
        self.progress.update(self.tasks[name], completed=done, total=total, note=note)
        if done >= total:
            self.progress.remove_task(self.tasks.pop(name))

    def tokenize(self, split: str, done: int, total: int) -> None:
        """Show how many documents of a split are tokenized."""
        self.draw(f"tokenizing {split}", done, total)

    def step(self, line: Line) -> None:
        """Show how many steps are done."""
        self.draw("training", line["step"], line["steps"], f"loss {line['loss']:.3f}" if "loss" in line else "")

    def evaluate(self, split: str, what: str, done: int, total: int) -> None:
        """Show how much of a split is evaluated; without a terminal, log it at the start and every minute."""
        self.draw(f"{split}, {what}", done, total)
        now = time.monotonic()
        if done == 0:
            self.began = self.said = now
            self.say(f"{split}: {total:,} {what}")
        elif now - self.said >= EVERY:
            self.said, left = now, (now - self.began) * (total - done) / done
            self.say(f"{split}: {done:,} of {total:,} {what}, about {left / 60:.0f} minutes left")

    def say(self, text: str) -> None:
        """Log what a bar would show, if there is no terminal."""
        if self.progress is None:
            logger.info(text)


@contextmanager
def bars() -> Iterator[Bars]:
    """Yield progress bars on standard error, in the main process on a terminal, else bars that only log."""
    if not (is_main_process() and errors.is_terminal):
        yield Bars(None)
        return
    note = TextColumn("{task.fields[note]}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), note)
    with Progress(*columns, console=errors, transient=True) as progress:
        yield Bars(progress)
