"""A run folder while it is being trained: created or resumed, locked, its steps logged, its checkpoints kept."""

import fcntl
import json
import logging
import math
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any

from torch import Tensor

from zoo.config import Tree, parse_yaml, to_yaml
from zoo.registry import plain
from zoo.runs.checkpoint import Checkpoint, latest, prune, steps, whole, write_checkpoint
from zoo.runs.environment import changes
from zoo.runs.files import ASIDE, digest, read_json, remove_stray, replace_file, to_json

CONFIG, TASK, TRAINING = "config.yaml", "task.yaml", "training.yaml"
METRICS, ENVIRONMENT = "metrics.jsonl", "environment.json"
CHECKPOINTS, LOCK = "checkpoints", ".lock"
TOKENIZER = ("tokenizer.json", "roles.json")
SHOWN = 5
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunFiles:
    """What a run consists of besides its checkpoints: resolved settings, as plain maps, and the tokenizer's files.

    Args:
        environment: the content of environment.json.
    """

    config: Tree
    task: Tree = field(default_factory=dict)
    training: Tree = field(default_factory=dict)
    tokenizer: Mapping[str, bytes] = field(default_factory=dict)
    environment: Tree = field(default_factory=dict)

    def content(self) -> dict[str, bytes]:
        """The settings and the tokenizer as files."""
        trees = {CONFIG: self.config, TASK: self.task, TRAINING: self.training}
        # plain() gives every list and map an object of its own: YAML would write a shared one as an alias
        return {name: to_yaml(plain(tree)).encode() for name, tree in trees.items()} | dict(self.tokenizer)


class Run:
    """A run folder that this process trains in; only the main process writes.

    Args:
        checkpoint: where the run continues; None at its beginning.
        lock: the open lock file; None in a process that only reads.
    """

    def __init__(self, folder: Path, checkpoint: Checkpoint | None, lock: IO[str] | None) -> None:
        self.folder, self.checkpoint, self.lock = folder, checkpoint, lock
        self.metrics = (folder / METRICS).open("ab") if lock else None

    @property
    def checkpoints(self) -> Path:
        return self.folder / CHECKPOINTS

    def log(self, line: Mapping[str, Any]) -> None:
        """Append one line to metrics.jsonl; what is not finite becomes null."""
        if self.metrics is not None:
            finite = {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in line.items()}
            self.metrics.write(json.dumps(finite, allow_nan=False).encode() + b"\n")
            self.metrics.flush()

    def save(self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Tree) -> None:
        """Write the checkpoint of a step.

        Args:
            tensors: `weights`, and what there is of `optimizer`, `ema` and `average`.
        """
        if self.metrics is not None:
            os.fsync(self.metrics.fileno())
            there = [self.folder / name for name in (CONFIG, TASK, *TOKENIZER)]
            depends = {path.name: digest(path) for path in there if path.exists()}
            write_checkpoint(self.checkpoints / str(step), tensors, state, self.metrics.tell(), depends)

    def prune(self, keep: int, best: int | None) -> None:
        """Keep the last `keep` checkpoints and the best one."""
        if self.metrics is not None:
            prune(self.checkpoints, keep, best)

    def recent(self, count: int) -> list[Checkpoint]:
        """The newest whole checkpoints, at most `count`."""
        return list(islice(whole(self.checkpoints), count))

    def close(self) -> None:
        """Give the folder free for another process."""
        if self.metrics is not None and self.lock is not None:
            self.metrics.close()
            self.lock.close()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def create_run(folder: Path, files: RunFiles, resume: bool = False, may_change: Collection[str] = ()) -> Run:
    """Begin a run in a new or empty folder, or continue the one that is there.

    Args:
        may_change: keys of the training settings that may differ from those of the run that is continued.

    Raises:
        ValueError: the folder holds something else, another process trains in it, or the settings differ.
    """
    check_folder(folder, resume)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = take_lock(folder)
    except OSError as error:
        raise ValueError(f"{folder}: cannot be written: {error.strerror}") from None
    try:
        return begin(folder, files, lock, may_change)
    except BaseException:
        lock.close()
        raise


def begin(folder: Path, files: RunFiles, lock: IO[str], may_change: Collection[str]) -> Run:
    """Write the run's files, after comparing them with those of the checkpoint that is continued."""
    for place in (folder, folder / CHECKPOINTS):
        for name in remove_stray(place):
            logger.warning("%s: removed %s, which an interrupted save left", folder, name)
    checkpoint = latest(folder / CHECKPOINTS)
    if checkpoint is None and steps(folder / CHECKPOINTS):
        raise ValueError(f"{folder}: none of its checkpoints is whole; choose another folder to begin anew")
    content, environment = files.content(), dict(files.environment)
    if checkpoint is not None:
        compare_settings(folder, content, may_change)
        environment["resumed"] = {"step": checkpoint.step, "before": warn_of_changes(folder, environment)}
        set_aside_broken(checkpoint)
    for name, data in content.items():
        replace_file(folder / name, data)
    replace_file(folder / ENVIRONMENT, to_json(environment))
    cut_metrics(folder / METRICS, 0 if checkpoint is None else checkpoint.metrics_bytes)
    return Run(folder, checkpoint, lock)


def join_run(folder: Path) -> Run:
    """The run that the main process has begun, for another process of the same training: it reads and never writes."""
    return Run(folder, latest(folder / CHECKPOINTS), None)


def check_folder(folder: Path, resume: bool) -> None:
    """Refuse a folder that holds anything but the run to be continued."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: is a file; a run needs a folder")
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    there = [name for name in names if name != LOCK and not name.startswith(ASIDE)]
    if not there:
        if resume:
            logger.warning("%s: nothing to resume there, the run begins anew", folder)
        return
    if CONFIG not in there:
        raise ValueError(f"{folder}: is not empty and no run ({', '.join(there[:SHOWN])}); choose a new folder")
    if not resume:
        raise ValueError(f"{folder}: already holds a run; continue it with --resume, or choose another folder")


def take_lock(folder: Path) -> IO[str]:
    """Lock a folder until the file is closed or the process ends, however it ends."""
    lock = (folder / LOCK).open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        owner = lock.read().strip()
        lock.close()
        raise ValueError(f"{folder}: process {owner} trains in it; wait for it, or choose another folder") from None
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def compare_settings(folder: Path, content: Mapping[str, bytes], may_change: Collection[str]) -> None:
    """Refuse to continue a run with other settings than it began with; report those that may change.

    Raises:
        ValueError: with the first settings that differ, old and new.
    """
    faults = []
    for name, data in content.items():
        path = folder / name
        if not path.is_file():
            raise ValueError(f"{path}: no such file; the run is not complete")
        if not name.endswith(".yaml"):
            faults += [f"{name} is another one"] if path.read_bytes() != data else []
            continue
        old, new = (parse_yaml(text.decode("utf-8"), str(path)) for text in (path.read_bytes(), data))
        for key, change in differences(old, new):
            if name == TRAINING and key in may_change:
                logger.warning("%s continues with another %s: %s", folder, key, change)
            else:
                faults.append(f"{name}: {key}: {change}")
    if faults:
        raise ValueError(f"{folder}: cannot be resumed with other settings: {'; '.join(faults[:SHOWN])}")


def differences(old: Any, new: Any, place: str = "") -> Iterable[tuple[str, str]]:
    """The keys that differ between two trees, and how."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from differences(old.get(key), new.get(key), f"{place}.{key}" if place else str(key))
    elif old != new:
        yield place, f"{old!r} -> {new!r}"


def warn_of_changes(folder: Path, now: Tree) -> Tree:
    """Say what may keep a resumed run from being the same to the last bit; the environment it ran in before."""
    before = read_json(folder / ENVIRONMENT)
    for change in changes(before, now):
        logger.warning("%s: the resumed run may differ in its last bits: %s", folder, change)
    return before


def set_aside_broken(checkpoint: Checkpoint) -> None:
    """Rename broken checkpoints that are newer than the one continued from, so that they count as none."""
    checkpoints = checkpoint.folder.parent
    for step in steps(checkpoints):
        if step > checkpoint.step:
            (checkpoints / str(step)).rename(checkpoints / f"{step}.broken")


def cut_metrics(path: Path, length: int) -> None:
    """Cut metrics.jsonl back to what it was when the checkpoint was written."""
    with path.open("ab") as file:
        if file.tell() < length:
            logger.warning("%s: is shorter than when the checkpoint was written", path)
        file.truncate(min(length, file.tell()))
