"""zoo check."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from zoo import config
from zoo.cli.main import DONE, FAILED
from zoo.cli.options import Data, Json, SetTask, read_section
from zoo.cli.output import say, say_json
from zoo.cli.progress import bars
from zoo.cli.survey_output import say_survey
from zoo.data.store.checking import check_store, shards_of
from zoo.data.task import Task
from zoo.data.task_list import ListedTask, listed_tasks
from zoo.disk import exists, expand_user
from zoo.experiments.request import Pair
from zoo.experiments.resolve import check_task, resolve_model_alone, resolve_training
from zoo.hub.checkpoint import load_checkpoint
from zoo.hub.exporting.hashes import hash_faults
from zoo.models.cost import on_meta, parameters
from zoo.runs.check import Report, check_checkpoint, check_run
from zoo.runs.checkpoint import steps
from zoo.runs.files import refuse_unreadable
from zoo.runs.layout import CHECKPOINTS, CONFIG, MANIFEST
from zoo.runs.saved import normalize_path
from zoo.strict_yaml import read_yaml
from zoo.survey.survey import TaskSurvey
from zoo.training.settings import OF_OPTIMIZER, Training
from zoo.wording import counted

EXPORTED = "config.json"
ALLOWED = "a run, a checkpoint, a Hugging Face folder, a token store, a task, or the YAML file of a model or a task"
PATH = f"{ALLOWED[0].upper()}{ALLOWED[1:]}."


def check(
    path: Annotated[Path, typer.Argument(metavar="PATH|TASK", help=PATH)],
    sets: SetTask = [],  # noqa: B006
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Check something for damage and mistakes; of a task, say what its data holds."""
    place = expand_user(path)
    changes = read_section(sets, "task", "check")
    is_name = not place.exists() and str(path) in config.names("tasks")
    if is_name:
        report = Report("task")
    else:
        report = check_file(place) if place.is_file() else check_folder(normalize_path(place))
    found = None
    if report.kind == "task" and not report.faults:
        found = survey(report, str(path if is_name else place), changes, data, is_name)
    elif report.kind != "task" and (sets or data is not None):  # a task with mistakes reports those
        raise ValueError(f"{path}: --set and --data are for a task's data")
    if as_json:
        say_json({"path": str(path), **asdict(report), "whole": not report.faults, "data": found})
    else:
        if found is not None:
            say_survey(found)
        for fault in report.faults:
            say(f"fault: {fault}")
        for remark in report.remarks:
            say(remark)
        state = counted(len(report.faults), "fault") if report.faults else "no faults"
        store = "" if found is None or "store" not in found else f"; token store: {found['store']}"
        say(f"{path}: {report.kind}, {state}{store}")
    sys.exit(FAILED if report.faults else DONE)


def survey(report: Report, name: str, sets: Sequence[Pair], data: Path | None, asked: bool) -> dict[str, Any] | None:
    """Survey the data of a task; None for the YAML file of a list of tasks, which has no data of its own.

    Args:
        asked: whether the task was given by its name, not as a file.

    Raises:
        ValueError: the data is missing, or cannot be read.
    """
    if not (asked or sets or data) and listed_tasks(name) is not None:
        report.remarks.append("the data of its tasks is not checked: name one of them")
        return None
    surveyed = TaskSurvey.find(name, sets, data)
    with bars() as drawn:
        return surveyed.run(drawn.tokenize)


def check_folder(place: Path) -> Report:
    """Check a run, a checkpoint, a Hugging Face folder or a token store; load the model, if there is one.

    Args:
        place: an absolute path, as loading the model names it: a fault that both find is reported once.

    Raises:
        ValueError: the folder is none of these.
    """
    with refuse_unreadable(place):
        store = shards_of(place)
        there = {name for name in (MANIFEST, CONFIG, CHECKPOINTS, EXPORTED) if exists(place / name)}
    if store is not None:
        report = Report("token store")
        whole, report.faults = check_store(store)
        again = "; the next run rebuilds what is damaged" if report.faults else ""
        report.remarks.append(f"undamaged shards: {whole:,}{again}")
        return report
    if MANIFEST in there:
        report = check_checkpoint(place)
    elif there & {CONFIG, CHECKPOINTS}:
        report = check_run(place)
    elif EXPORTED in there:
        report = Report("exported model")
        report.faults += report.attempt(hash_faults, place, True) or []
    elif place.parent.name == CHECKPOINTS:  # last: a user's own folder may have this name
        report = check_checkpoint(place)
    else:
        raise ValueError(f"{place}: not {ALLOWED}")
    if report.kind != "run" or steps(place / CHECKPOINTS):
        check_model(report, place)
    return report


def check_model(report: Report, place: Path) -> None:
    """Load the model, and report what prevents that unless it is a known fault."""
    try:
        loaded = load_checkpoint(place)
    except ValueError as fault:
        if not any(str(fault) in known for known in report.faults):
            report.faults.append(str(fault))
        return
    own = loaded.optional_tokenizer
    known = "no tokenizer (it reads token ids only)" if own is None else f"the tokenizer {own.vocab_size:,} tokens"
    tokens = f", {known}" if loaded.traits.has_text else ""
    report.remarks.append(f"the model has {parameters(loaded.model):,} parameters{tokens}, and loads")


def check_file(place: Path) -> Report:
    """Check the YAML file of a model or a task, or of a run's training settings.

    Raises:
        ValueError: it is a file inside a model's folder.
    """
    if place.suffix in (".json", ".safetensors"):
        raise ValueError(f"{place}: not {ALLOWED}; check the folder {place.absolute().parent}")
    report = Report("YAML file")
    tree = report.attempt(read_yaml, place)
    if tree is None:
        return report
    report.kind = kind_of(tree)
    if report.kind == "training":
        report.attempt(resolve_training, [config.Layer(str(place), without_nulls(tree))])
    elif report.kind == "task":
        report.attempt(check_task, str(place))
    else:
        resolved = report.attempt(resolve_model_alone, str(place), ())
        if resolved is not None:
            report.attempt(on_meta, resolved[0])
    return report


def kind_of(tree: Mapping[str, Any]) -> str:
    """Return which kind of YAML file has these keys: "task", "training" (settings of a run), else "model"."""
    tasks = {field.name for known in (Task, ListedTask) for field in fields(known)} - {"training"}
    training = {field.name for field in fields(Training)} | set(OF_OPTIMIZER)
    counts = {"model": 0, "task": len(tasks & tree.keys()), "training": len(training & tree.keys())}
    most = max(counts, key=lambda kind: counts[kind])
    return most if counts[most] else "model"


def without_nulls(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are not null: a run's file also lists those that are."""
    return {key: value for key, value in tree.items() if value is not None}
