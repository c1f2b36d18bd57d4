"""Files that list tasks, such as `glue`; imports no torch, so that the command line can read them quickly."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo import config
from zoo.registry import check


@dataclass(frozen=True)
class ListedTask:
    """The content of a file that lists tasks.

    Args:
        tasks: names, or paths of files (relative to the folder of the list).
    """

    tasks: list[str]


def listed_tasks(name: str, chosen: Any = None) -> list[str] | None:
    """The tasks that a file lists, in its order; None if the file is a task itself.

    Args:
        chosen: the tasks to take instead of the file's own.

    Raises:
        ValueError: the file does not exist, it does not hold a list of names, or a name occurs twice.
    """
    layers = config.read_layers(name, "tasks")
    tree: Mapping[str, Any] = layers[-1].tree
    if "tasks" not in tree:
        return None
    config.build(ListedTask, tree, name)  # refuses any other key
    tasks = check(tree["tasks"] if chosen is None else chosen, list[str], f"{name}.tasks")
    beside = config.find(name, "tasks").parent
    files = [
        str(beside / task) if (beside / task).is_file() and task.endswith((".yaml", ".yml")) else task for task in tasks
    ]
    stems = [Path(task).stem for task in files]
    twice = sorted({stem for stem in stems if stems.count(stem) > 1})
    if not tasks or twice:
        raise ValueError(f"{name}.tasks: " + (f"'{twice[0]}' is listed twice" if twice else "it lists no task"))
    nested = next((task for task in files if "tasks" in config.read_layers(task, "tasks")[-1].tree), None)
    if nested is not None:
        raise ValueError(f"{name}.tasks: {nested} is a list of tasks itself; name its tasks")
    return files
