"""request.yaml: what a run was asked for, and by its hashes the checkpoint that it goes on from."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoo import config
from zoo.runs.files import readable
from zoo.runs.layout import REQUEST
from zoo.strict_yaml import read_yaml


@dataclass(frozen=True)
class BaseRecord:
    """A checkpoint that another run goes on from.

    Args:
        step: of the weights.
        weights_sha256: of the file of the published weights.
        data: by split, a hash of the data that it was trained on.
        start: what its own run began with: a model, or a checkpoint; empty where that is unknown.
        base: the checkpoint that its own run went on from.
    """

    step: int
    weights_sha256: str
    data: dict[str, Any] = field(default_factory=dict)
    start: str = ""
    base: "BaseRecord | None" = None


@dataclass(frozen=True)
class RequestRecord:
    """The words of the command that started a run.

    Args:
        start: MODEL or CHECKPOINT.
        changes: every `--set`, each as a map of one dotted key.
        base: the checkpoint that the run goes on from; None: it began from scratch.
    """

    start: str = ""
    task: str = ""
    changes: list[dict[str, Any]] = field(default_factory=list)
    base: BaseRecord | None = None


def read_request(folder: Path) -> RequestRecord:
    """What a run was asked for; nothing is known of an imported model.

    Raises:
        ValueError: the file is not what was written.
    """
    path = folder / REQUEST
    with readable(path):
        is_there = path.exists()
    return config.build(RequestRecord, read_yaml(path), str(path)) if is_there else RequestRecord()
