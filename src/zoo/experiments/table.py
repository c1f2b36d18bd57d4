"""A table of experiments, such as one per task of a list: each run is started, resumed, or found complete."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from zoo.config import build
from zoo.data.task import read_task
from zoo.disk import expand_user
from zoo.experiments.request import Request
from zoo.metrics.choose import ChosenMetric, parse_metrics
from zoo.objectives.mixture import Mixture
from zoo.runs.checkpoint import steps, verify
from zoo.runs.files import names_in
from zoo.runs.layout import CHECKPOINTS, LOCK, REQUEST, STATE
from zoo.runs.metrics import VALIDATION, Line, sample_size
from zoo.runs.request import read_request
from zoo.runs.run import check_folder
from zoo.runs.saved import is_run, open_run
from zoo.training.settings import Training
from zoo.training.state import State, is_over

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """The result of one experiment.

    Args:
        name: the name of its row in the table.
        folder: its run folder.
        step: the step of its best checkpoint.
        values: metric name -> value on validation.
        score: the mean of the values, each in percent of its metric's best value; None if a metric has none.
        files: for a task measured file by file, the result on each file.
        sample: the number of validation examples measured; None: all.
    """

    name: str
    folder: Path
    step: int
    values: dict[str, float]
    score: float | None
    files: tuple["Outcome", ...] = ()
    sample: int | None = None


@dataclass(frozen=True)
class ExperimentTable:
    """Named experiments, run in order; each has a run folder of its name.

    Args:
        rows: name -> request.
    """

    rows: dict[str, Request]

    def check(self, check_request: Callable[[Request], object]) -> None:
        """Refuse the whole table, before the first experiment, if one of them cannot be run.

        Args:
            check_request: raises a ValueError for a request that cannot be run.

        Raises:
            ValueError: with the message of each that cannot.
        """
        found = []
        for name, request in self.rows.items():
            try:
                check_folder(request.folder, resume=True)
                refuse_other_request(request)
                check_request(request)
            except ValueError as problem:
                found.append(f"{name}: {problem}")
        if found:
            count = f"{len(found)} of {len(self.rows)} experiments cannot be run, so none is started"
            raise ValueError("\n".join([count, *found]))

    def run_all(self, work: Callable[[Request], State], is_main: bool = True) -> Iterator[Outcome]:
        """Run each experiment that is not complete, and yield the result of each.

        Args:
            work: trains, resuming if the request says so.
            is_main: whether to read and yield results: only in the main process, since others may not see its disk.
        """
        for number, (name, request) in enumerate(self.rows.items(), 1):
            place = f"{name} ({number} of {len(self.rows)})"
            if is_complete(request.folder):
                logger.info("%s: already complete in %s", place, request.folder)
            else:
                logger.info("%s: %s", place, request.folder)
                begun = set(names_in(request.folder)) - {LOCK}
                work(replace(request, resume=bool(begun)))
            if is_main:
                yield outcome(name, request.folder)


def is_complete(folder: Path) -> bool:
    """Whether a run has finished: all steps are done, or it stopped early."""
    there = steps(folder / CHECKPOINTS)
    if not there:
        return False
    try:
        newest = verify(folder / CHECKPOINTS / str(there[0]))
    except ValueError:  # resuming the run logs it, and continues from an earlier one
        return False
    state = build(State, newest.state, str(newest.folder / STATE))
    return state.line is None and is_over(state, build(Training, newest.training, str(newest.folder)))


def refuse_other_request(request: Request) -> None:
    """Refuse a folder inside a run, and a folder whose run had another request: it would be resumed as this one.

    Raises:
        ValueError: with what differs; or the run has checkpoints but no record of a request, as an imported model.
    """
    if (request.folder.parent / REQUEST).exists() or is_run(request.folder.parent):
        raise ValueError(f"{request.folder.parent}: holds a run itself; name another folder with -o")
    if not (request.folder / REQUEST).exists():
        if steps(request.folder / CHECKPOINTS):
            made = f"holds a run without {REQUEST}, such as an imported model"
            raise ValueError(f"{request.folder}: {made}; name another folder with -o")
        return
    before = read_request(request.folder)
    asked = {"checkpoint": absolute_start(request.start), "task": request.task, "changes": request.changes}
    there = {"checkpoint": absolute_start(before.start), "task": before.task, "changes": before.changes}
    if before.base is not None:  # a checkpoint may be moved with its runs: its weights decide (`check_finetuning`)
        del asked["checkpoint"]
    for what, value in asked.items():
        if value != there[what]:
            other = f"holds a run with {what} {there[what] or 'none'}, not {value or 'none'}"
            raise ValueError(f"{request.folder}: {other}; name another folder with -o, or remove this one")


def absolute_start(start: str) -> str:
    """A checkpoint's absolute path, or `hub:…` as it is, so that two spellings compare equal."""
    return start if start.startswith("hub:") else str(expand_user(start).resolve())


def outcome(name: str, folder: Path) -> Outcome:
    """The validation results of a run's best checkpoint."""
    saved = open_run(folder)
    task = read_task(saved.task, str(folder))
    chosen = parse_metrics(task.metrics, Mixture.of(task).metrics)
    line = next((line for line in saved.metrics if line["step"] == saved.step), {})
    first = f"/{chosen[0].name}" if chosen else ""
    keys = [key.removeprefix(VALIDATION) for key in line if key.startswith(VALIDATION)]
    files = [key.removesuffix(first) for key in keys if first and key.endswith(first)]
    found = {file: metrics_in(line, chosen, f"{VALIDATION}{file}/") for file in files}
    apart = tuple(Outcome(file, folder, saved.step, *those) for file, those in found.items())
    values, score = metrics_in(line, chosen, VALIDATION)
    return Outcome(name, folder, saved.step, values, score, apart, sample_size(line, saved.training))


def metrics_in(line: Line, chosen: Sequence[ChosenMetric], place: str) -> tuple[dict[str, float], float | None]:
    """The metrics in a logged line under a key prefix, by name, and their score (see `Outcome`)."""
    values = {m.name: value for m in chosen if isinstance(value := line.get(f"{place}{m.name}"), float | int)}
    best = {m.name: m.variant.best for m in chosen}
    shares = [100 * values[name] / most for name, most in best.items() if most is not None and name in values]
    whole = bool(chosen) and len(shares) == len(chosen)
    return values, sum(shares) / len(shares) if whole else None


def mean_score(outcomes: Sequence[Outcome]) -> float | None:
    """The mean of the scores; None if an experiment has none."""
    scores = [found.score for found in outcomes if found.score is not None]
    return sum(scores) / len(scores) if scores and len(scores) == len(outcomes) else None


def over_tasks(request: Request, tasks: Iterable[str]) -> ExperimentTable:
    """One experiment per task, with the same changes; each folder is named after its task."""
    changes = [pair for pair in request.sets if pair[0] != ("task", "tasks")]
    named = {Path(task).stem: task for task in tasks}
    rows = {n: replace(request, task=task, folder=request.folder / n, sets=changes) for n, task in named.items()}
    return ExperimentTable(rows)
