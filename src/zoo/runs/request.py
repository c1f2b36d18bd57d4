"""request.yaml: the command that started a run, and a record of the checkpoint that it started from."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoo import config
from zoo.disk import exists
from zoo.runs.files import read_sealed, refuse_unreadable
from zoo.runs.layout import ENVIRONMENT, REQUEST
from zoo.strict_yaml import read_yaml


@dataclass(frozen=True)
class BaseRecord:
    """A record of the checkpoint that a run started from.

    Args:
        step: the checkpoint's step.
        weights_sha256: hash of its file of published weights.
        data: split name -> hash of the data that it was trained on.
        start: MODEL or CHECKPOINT of the command that started its run; empty if unknown.
        base: the checkpoint that its own run started from; None if from scratch.
    """

    step: int
    weights_sha256: str
    data: dict[str, Any] = field(default_factory=dict)
    start: str = ""
    base: "BaseRecord | None" = None


@dataclass(frozen=True)
class RequestRecord:
    """The command that started a run.

    Args:
        start: MODEL or CHECKPOINT.
        task: TASK, a name or path.
        changes: every `--set`, each as a map of one dotted key to its value.
        base: the checkpoint that the run started from; None if from scratch.
    """

    start: str = ""
    task: str = ""
    changes: list[dict[str, Any]] = field(default_factory=list)
    base: BaseRecord | None = None


def read_request(folder: Path) -> RequestRecord:
    """Read a run's request.yaml; an imported model has none, and gets an empty record.

    Raises:
        ValueError: the file cannot be read or is damaged.
    """
    path = folder / REQUEST
    with refuse_unreadable(path):
        is_there = exists(path)
    return config.build(RequestRecord, read_yaml(path), str(path)) if is_there else RequestRecord()


def read_first_changes(folder: Path) -> list[dict[str, Any]]:
    """The changes of the command that started a run to resume; none if request.yaml is missing.

    Raises:
        ValueError: as `read_request`.
    """
    try:
        return read_request(folder).changes
    except ValueError as reason:
        raise ValueError(
            f"{reason}; --resume reads the changes of the first command from it: restore it, or delete it and repeat "
            "those changes"
        ) from None


def is_lost(folder: Path) -> bool:
    """Whether a run has lost its request.yaml; an imported model never had one."""
    try:
        listed = REQUEST in read_sealed(folder / ENVIRONMENT).get("files", {})
    except ValueError:
        return False
    return listed and not (folder / REQUEST).exists()
