"""What a training command asks for, checked before a row of data is read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zoo.config import Tree, merge
from zoo.data.task import Task, load_task
from zoo.metrics.choose import ChosenMetric, parse_metrics
from zoo.models.search import GenerateSettings, parse_generate
from zoo.objectives.mixture import Mixture
from zoo.training.settings import Training, resolve_training

Path_ = tuple[str, ...]
Sets = Sequence[tuple[Path_, Any]]


@dataclass(frozen=True)
class Request:
    """A training command.

    Args:
        task: a name, or a path to a YAML file.
        folder: of the run.
        model_sets: `--set` pairs for the model.
        task_sets, training_sets: what `--set` says of the task (`generate` among it) and of training, as maps.
        resume: continue the run that is in the folder.
        data: folder of the task's files.
    """

    task: str
    folder: Path
    model_sets: Sets = ()
    task_sets: Tree = field(default_factory=dict)
    training_sets: Tree = field(default_factory=dict)
    resume: bool = False
    data: Path | None = None


@dataclass(frozen=True)
class Plan:
    """A task and everything that follows from it without its data."""

    task: Task
    mixture: Mixture
    metrics: list[ChosenMetric]
    generate: GenerateSettings
    training: Training


def make_plan(request: Request, model_training: Mapping[str, Any]) -> Plan:
    """Read the task and all that it says, strictly.

    Args:
        model_training: what the model's own file says about training it.

    Raises:
        ValueError: an unknown name or key, or values that do not combine.
    """
    task = read_request_task(request)
    mixture = Mixture.parse(task.objective)
    task = replace(task, generate=merge(task.generate, {}))
    training = resolve_training([model_training, task.training, request.training_sets])
    metrics = parse_metrics(task.metrics, mixture.metrics)
    return Plan(task, mixture, metrics, parse_generate(task.generate), training)


def read_request_task(request: Request) -> Task:
    """The task as `--set` changes it; a tokenizer taken `from` a checkpoint replaces the one that the file describes."""
    tokenizer = request.task_sets.get("tokenizer")
    if not isinstance(tokenizer, Mapping) or "from" not in tokenizer:
        return load_task(request.task, request.task_sets)
    others = {key: value for key, value in request.task_sets.items() if key != "tokenizer"}
    return replace(load_task(request.task, others), tokenizer=dict(tokenizer))


def names_key(sets: Iterable[tuple[Path_, Any]], key: str) -> bool:
    """Whether `--set` names a key of the model itself."""
    return any(path == (key,) for path, _ in sets)
