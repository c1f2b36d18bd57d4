"""Reading a trained run: settings, tokenizer, and the checkpoint that a path stands for."""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from zoo.disk import is_file, is_folder
from zoo.runs.checkpoint import Checkpoint, latest, steps, verify
from zoo.runs.files import check_file, read_json, read_sealed, refuse_outside, refuse_unreadable
from zoo.runs.layout import (
    CHECKPOINTS,
    CONFIG,
    DATA,
    ENVIRONMENT,
    METRICS,
    REQUEST,
    TASK,
    TOKENIZER,
    no_checkpoint_message,
)
from zoo.runs.metrics import COST, Line, read_metrics
from zoo.runs.request import BaseRecord, RequestRecord, is_lost, read_request
from zoo.strict_yaml import Tree, read_yaml

TRIES = 10  # to find checkpoints while training replaces them
UNREAD = ("optimizer.safetensors",)  # most of a checkpoint's bytes, and only --resume needs it
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SavedRun:
    """A run folder and one of its checkpoints.

    Args:
        training: the training settings of the checkpoint.
        tokenizer: file name -> content; empty for a model without text.
        data: split name -> hash of the data that it was trained on.
    """

    folder: Path
    config: Tree
    task: Tree
    training: Tree
    tokenizer: Mapping[str, bytes]
    checkpoint: Checkpoint
    data: Tree = field(default_factory=dict)

    @property
    def metrics(self) -> list[Line]:
        """The lines of metrics.jsonl, one per step; none, with a warning, if the file is missing or damaged."""
        try:
            return read_metrics(self.folder / METRICS, self.checkpoint.mark)
        except ValueError as reason:  # no weights depend on it
            logger.warning("%s; %s", reason, COST)
            return []

    @property
    def environment(self) -> Tree:
        """The content of environment.json; empty if there is none, or with a warning if it is damaged."""
        path = self.folder / ENVIRONMENT
        try:
            return read_sealed(path) if path.is_file() else {}
        except ValueError as reason:  # no weights depend on it
            logger.warning("%s; without it, the versions and the machine of the training are unknown", reason)
            return {}

    @property
    def request(self) -> RequestRecord:
        """The content of request.yaml; empty for an imported model, or with a warning if it is lost or damaged."""
        try:
            if is_lost(self.folder):
                raise ValueError(f"{self.folder / REQUEST}: no such file")
            return read_request(self.folder)
        except ValueError as reason:  # no weights depend on it
            logger.warning("%s; without it, what the training started from is unknown", reason)
            return RequestRecord()

    @property
    def record(self) -> BaseRecord:
        """The record of this checkpoint for a run that starts from it."""
        own, weights = self.request, f"{self.checkpoint.published_kind}.safetensors"
        return BaseRecord(self.step, self.checkpoint.files[weights], dict(self.data), own.start, own.base)

    @property
    def step(self) -> int:
        return self.checkpoint.step

    @property
    def weights(self) -> dict[str, Tensor]:
        """The weights to use: averaged or merged ones if the checkpoint has them, else those of its step."""
        return self.checkpoint.published


def is_run(path: Path) -> bool:
    """Whether a path is a run folder or a checkpoint folder inside one."""
    with refuse_unreadable(path):
        return is_file(run_of(path) / CONFIG) and is_folder(run_of(path) / CHECKPOINTS)


def run_of(path: Path) -> Path:
    """The run folder that a path belongs to: RUN for RUN/checkpoints/<step>, else the path itself.

    A folder with a config.yaml is a run even if its parent happens to be called `checkpoints`.
    """
    path = normalize_path(path)
    return path.parent.parent if path.parent.name == CHECKPOINTS and not is_file(path / CONFIG) else path


def normalize_path(path: Path) -> Path:
    """An absolute path without `.` and `..`; `..` after a symbolic link goes up from the link's target."""
    path = path.absolute()
    return Path(os.path.realpath(path)) if ".." in path.parts else path


def open_run(path: Path) -> SavedRun:
    """Open RUN (its best validated checkpoint, else its last) or RUN/checkpoints/<step>.

    Raises:
        ValueError: there is no run, or one of its files is damaged; the message names it.
    """
    folder = run_of(path)
    if not is_file(folder / CONFIG):
        raise ValueError(f"{path}: is not a run: it has no {CONFIG}" if path.is_dir() else f"{path}: no such folder")
    refuse_outside(folder)
    checkpoint = open_best(folder) if normalize_path(path) == folder else open_checkpoint(folder, path)
    check_run_files(folder, checkpoint)
    config, task = read_yaml(folder / CONFIG), read_yaml(folder / TASK)
    tokenizer = {name: (folder / name).read_bytes() for name in TOKENIZER if is_file(folder / name)}
    data = read_json(folder / DATA) if DATA in checkpoint.run_files else {}
    return SavedRun(folder, config, task, checkpoint.training, tokenizer, checkpoint, data)


def open_checkpoint(folder: Path, path: Path) -> Checkpoint:
    """Open the checkpoint RUN/checkpoints/<step>.

    Raises:
        ValueError: there is no such checkpoint, or it is damaged.
    """
    there = [str(step) for step in steps(folder / CHECKPOINTS)]
    name = normalize_path(path).name
    if name not in there:
        raise ValueError(no_checkpoint_message(path, name, folder, there))
    return verify(folder / CHECKPOINTS / name, UNREAD)


def open_best(folder: Path) -> Checkpoint:
    """Open the best validated checkpoint, which the newest one's state names, else the newest.

    While they are read, a process that trains may replace them by others; then it looks again.

    Raises:
        ValueError: no checkpoint is undamaged.
    """
    places = folder / CHECKPOINTS
    for _ in range(TRIES):
        there = steps(places)
        found, fault = find_best(places)
        if not fault or steps(places) == there:
            break
    if found is None:
        raise ValueError(f"{folder}: {fault}")
    if fault:
        logger.warning("using the last checkpoint, %d, since the best one is damaged: %s", found.step, fault)
    return found


def find_best(places: Path) -> tuple[Checkpoint | None, str]:
    """The best validated checkpoint, else the newest, or None; and what is wrong with the better ones, or nothing."""
    newest = latest(places, UNREAD)
    if newest is None:
        return None, "has no undamaged checkpoint"
    try:
        record = newest.state.get("best")
        if not record or record["step"] == newest.step:
            return newest, ""
        return verify(places / str(record["step"]), UNREAD), ""
    except ValueError as reason:
        return newest, str(reason)


def check_run_files(folder: Path, checkpoint: Checkpoint) -> None:
    """Raise a ValueError if a file that the weights depend on (config, task, tokenizer, data) has changed."""
    for name, written in checkpoint.run_files.items():
        check_file(folder / name, written, f"checkpoint {checkpoint.step}")
