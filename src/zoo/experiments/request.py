"""What a training command asks for, checked before a row of data is read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoo import config
from zoo.config import Tree, merge, nest
from zoo.data.task import Task, read_task
from zoo.metrics.choose import ChosenMetric, parse_metrics
from zoo.models.generation.settings import GenerateSettings, parse_generate
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
        model_sets, task_sets: `--set` pairs for the model, and for the task (`generate` among them).
        training_sets: what `--set` says of training, as a map.
        resume: continue the run that is in the folder.
        data: folder of the task's files.
    """

    task: str
    folder: Path
    model_sets: Sets = ()
    task_sets: Sets = ()
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
    task = read_changed(request.task, request.task_sets)
    mixture = Mixture.parse(task.objective)
    training = resolve_training([model_training, task.training, request.training_sets])
    metrics = parse_metrics(task.metrics, mixture.metrics)
    return Plan(task, mixture, metrics, parse_generate(task.generate), training)


def read_changed(name: str, sets: Sets) -> Task:
    """A task by its name or path, changed by `--set` pairs.

    Raises:
        ValueError: as `read_task`.
    """
    tree = config.read_with_base(config.find(name, "tasks", "task"), "tasks", "task")
    for path, value in sets:
        tree = lay_over(tree, path, value)
    return read_task(tree, name)


def lay_over(tree: Tree, path: Path_, value: Any) -> Tree:
    """One `--set` of the task; new objectives, and a tokenizer taken `from` a run, replace what the file chose."""
    above = nest(path, value)
    tokenizer = above.get("tokenizer")
    if path == ("objective",) or (isinstance(tokenizer, Mapping) and "from" in tokenizer):
        tree = {key: below for key, below in tree.items() if key != path[0]}
    merged: Tree = merge(tree, above)
    return merged


def names_key(sets: Iterable[tuple[Path_, Any]], key: str) -> bool:
    """Whether `--set` names a key of the model itself."""
    return any(path == (key,) for path, _ in sets)


def split_heads(sets: Sets) -> tuple[Sets, Sets]:
    """The pairs about heads, and all others: a run's heads are known only when its task is."""
    about_heads = [(path, value) for path, value in sets if path[0] == "heads"]
    return about_heads, [(path, value) for path, value in sets if path[0] != "heads"]
