"""The validation results on a model card, and the command that measures them again."""

import shlex
from dataclasses import replace
from typing import Any

from zoo.config import names
from zoo.data.task import load_task
from zoo.devices.precision import AUTO
from zoo.hub.exporting.card.markdown import code_block, escape, one_line, section, table
from zoo.hub.exporting.card.paths import last_component, without_paths
from zoo.hub.exporting.trained_model import PLACEHOLDER, TrainedModel, TrainingHistory
from zoo.hub.targets.declare.target import NativeClass

TASK_FILE = "task.yaml"  # where a reader saves a task that zoo does not ship


def evaluation(trained: TrainedModel, native: NativeClass) -> list[str]:
    """The section with validation metrics and the command that measures them again; empty without metrics."""
    measured = trained.measured(native)
    if not measured:
        return []
    rows = [(name, f"{value:.4f}") for name, value in measured.items()]
    return section(
        "Evaluation",
        [f"On {measured_split(trained.history)}:", ""],
        table(("metric", "value"), rows),
        repeat_command(trained, native),
    )


def measured_split(history: TrainingHistory) -> str:
    """What was measured: the validation split, or a number of its examples."""
    return f"{history.n_measured:,} examples of the validation split" if history.n_measured else "the validation split"


def repeat_command(trained: TrainedModel, native: NativeClass) -> list[str]:
    """The command that repeats the validation, with the task's file if zoo does not ship it; a note if it cannot."""
    if lacking := trained.objectives_without(native):
        return [f"This folder cannot repeat the validation, which also measured {', '.join(lacking)}.", ""]
    history = trained.history
    place = trained.address if trained.address == PLACEHOLDER else f"hub:{trained.address}"
    named = history.training.get("precision", AUTO)
    precision = [] if named == AUTO else ["--precision", named]  # the reader's folder does not record it
    task, first = history.request.task, ""
    if not is_shipped(trained):
        task = TASK_FILE if task in ("", *names("tasks")) else one_line(last_component(task)) or TASK_FILE
        tree = shown_task(trained)
        folders = ", with the folders of its files" if without_paths(tree) != tree else ""
        first = f", write the task above to {escape(task)}{folders}"
    command = shlex.join(["zoo", "evaluate", place, task, "--split", "validation", *precision])
    what = "the whole split" if history.n_measured else "it again"
    said = [f"To measure {what}{first}:", ""] if first or history.n_measured else []
    return [*said, *code_block(command)]


def is_shipped(trained: TrainedModel) -> bool:
    """Return whether zoo ships a task of that name that equals the run's, apart from values read from the data."""
    request, own = trained.history.request, trained.task
    if request.task not in names("tasks"):
        return False
    shipped = load_task(request.task)
    unread = ("tokenizer", "augment", "training", "card")
    said = {".".join(key.split(".")[:2]) for change in request.changes for key in change}
    # what nobody set, the run has read from the data, as will a reader's run; task.columns.text counts as task.columns
    open_to_data = [key for key in ("columns", "labels") if not {"task", f"task.{key}"} & said]
    decided = [key for key in open_to_data if not getattr(shipped, key)]
    return replace(own, **{key: getattr(shipped, key) for key in (*unread, *decided)}) == shipped


def shown_task(trained: TrainedModel) -> dict[str, Any]:
    """The task as a card shows it, before paths are hidden."""
    # a fine-tuned model kept the tokenizer of its base, so the task's was never trained
    unread = ("training", "card", *["tokenizer"] * bool(trained.history.bases))
    return {key: value for key, value in trained.task.plain().items() if key not in unread}
