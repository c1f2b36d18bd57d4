"""A run folder during training: create or resume it, lock it, log steps, save and delete checkpoints."""

import fcntl
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from torch import Tensor

from zoo.disk import NO_LOCKS, exists
from zoo.registry import plain
from zoo.runs.checkpoint import Checkpoint, latest, prune, steps, undamaged_checkpoints, write_checkpoint
from zoo.runs.files import (
    digest,
    names_in,
    refuse_outside,
    remove_leftovers,
    replace_file,
    restore_replaced,
    seal,
    to_json,
)
from zoo.runs.layout import CHECKPOINTS, CONFIG, DATA, ENVIRONMENT, LOCK, METRICS, REQUEST, TASK, TOKENIZER, TRAINING
from zoo.runs.lock import in_use, take_lock, writer_of
from zoo.runs.metrics import Mark, MetricsLog, set_aside
from zoo.runs.resume import RESUMED, refuse_changes, rename_damaged, resumptions
from zoo.runs.saved import check_run_files
from zoo.strict_yaml import Tree, to_yaml
from zoo.wording import first_few

PROBE = 1 << 20  # bytes
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunFiles:
    """The content of a run besides its checkpoints: resolved settings as plain maps, and the tokenizer's files.

    Args:
        tokenizer: file name -> content.
        environment: the content of environment.json.
        data: split name -> hash of its sources and of the options that decide what is read from them.
        request: a `RequestRecord` as a map.
    """

    config: Tree
    task: Tree = field(default_factory=dict)
    training: Tree = field(default_factory=dict)
    tokenizer: Mapping[str, bytes] = field(default_factory=dict)
    environment: Tree = field(default_factory=dict)
    data: Tree = field(default_factory=dict)
    request: Tree = field(default_factory=dict)

    def content(self) -> dict[str, bytes]:
        """File name -> content, of all but environment.json."""
        trees = {CONFIG: self.config, TASK: self.task, TRAINING: self.training}
        trees |= {REQUEST: self.request} if self.request else {}
        # plain() copies every list and map: YAML would write an object that occurs twice as an alias
        files = {name: to_yaml(plain(tree)).encode() for name, tree in trees.items()} | dict(self.tokenizer)
        return {**files, DATA: to_json(self.data)} if self.data else files


class Run:
    """The run folder of a training process; only the main process writes to it, in others `log` and `save` do nothing.

    Args:
        checkpoint: the one to continue from; None at step 0.
        lock: the open lock file; None in a process other than the main one.
        files: name -> SHA-256, at the start of training, of the run's files that the weights depend on.
        training: the content of training.yaml.
    """

    def __init__(
        self,
        folder: Path,
        checkpoint: Checkpoint | None,
        lock: IO[str] | None,
        files: Mapping[str, str] = {},
        training: bytes = b"",
    ) -> None:
        self.folder, self.checkpoint, self.lock = folder, checkpoint, lock
        self.files, self.training = files, training
        # held open so that the file system gives its inode to no other folder meanwhile
        self.opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY) if lock else None
        mark = Mark() if checkpoint is None else checkpoint.mark
        self.metrics = MetricsLog(folder / METRICS, mark) if lock else None

    @property
    def checkpoints(self) -> Path:
        return self.folder / CHECKPOINTS

    def log(self, line: Mapping[str, Any]) -> None:
        """Append one line to metrics.jsonl; NaN and infinities become null."""
        if self.metrics is not None:
            self.metrics.append(line)

    def save(
        self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Tree, extra_files: Mapping[str, Tree] = {}
    ) -> None:
        """Write the checkpoint of `step`.

        Args:
            tensors: kind -> tensors by name: `weights`, and any of `optimizer`, `ema`, `average` and `merged`.
            extra_files: name -> content of further JSON files, for other programs.

        Raises:
            RuntimeError: it cannot be written, or the folder is gone or another one.
        """
        if self.metrics is not None:
            self.warn_if_changed()
            place = self.checkpoints / str(step)
            write_checkpoint(place, tensors, state, self.training, self.metrics.mark(), self.files, extra_files)

    def warn_if_changed(self) -> None:
        """Log which of the run's files were changed or deleted; training continues with their old content.

        Raises:
            RuntimeError: the folder is gone, or another one is there.
        """
        if not self.is_there():
            again = ", and another folder is there now" if self.folder.is_dir() else ""
            said = f"was deleted or moved during training{again}; if moved, its checkpoints are undamaged"
            raise RuntimeError(f"{self.folder}: {said}")
        for name, written in self.files.items():
            path = self.folder / name
            if not path.is_file():
                logger.warning("%s: was deleted during training, which continues without it; restore it", path)
            elif digest(path) != written:
                logger.warning("%s: changed during training, which continues with the old content; restore that", path)

    def is_there(self) -> bool:
        """Whether the folder's path still leads to it, not to nothing or to a folder made since, by another run."""
        try:
            return self.opened is None or os.path.samestat(os.fstat(self.opened), self.folder.stat())
        except (FileNotFoundError, NotADirectoryError):
            return False

    def prune(self, keep: int, best: int | None) -> None:
        """Keep the last `keep` checkpoints and the best one."""
        if self.metrics is not None:
            prune(self.checkpoints, keep, best)

    def undamaged_checkpoints(self) -> Iterator[Checkpoint]:
        """Yield the undamaged checkpoints, newest first."""
        return undamaged_checkpoints(self.checkpoints)

    def close(self) -> None:
        """Close the log and release the folder's lock."""
        if self.metrics is not None and self.lock is not None:
            self.metrics.close()
            self.lock.close()
        if self.opened is not None:
            os.close(self.opened)
            self.opened = None

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def create_run(folder: Path, files: RunFiles, resume: bool = False, may_change: Mapping[str, str] = {}) -> Run:
    """Start a run in a new or empty folder, or continue the one in it.

    Args:
        may_change: training setting that may differ from the resumed run's -> what else can differ then.

    Raises:
        ValueError: the folder holds something else, another process writes to it, or the settings differ.
    """
    check_folder(folder, resume)
    refuse_outside(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = take_lock(folder)
        try:
            if not resume:
                check_folder(folder, resume)  # again, under the lock: another process may have filled it
            return prepare_run(folder, files, lock, may_change, resume)
        except BaseException:
            lock.close()
            raise
    except OSError as error:
        raise ValueError(cannot_be_written(error.filename or folder, error)) from None


def prepare_run(folder: Path, files: RunFiles, lock: IO[str], may_change: Mapping[str, str], resume: bool) -> Run:
    """Clean up after a killed process, compare the files with the resumed checkpoint's, and write them.

    Raises:
        ValueError: all checkpoints are damaged, or the run has other settings, data or tokenizer.
    """
    restore_replaced(folder / CHECKPOINTS)
    for place in (folder, folder / CHECKPOINTS):
        for name in remove_leftovers(place):
            logger.warning("%s: removed %s, left by an interrupted save", folder, name)
    checkpoint = latest(folder / CHECKPOINTS)
    if checkpoint is None and steps(folder / CHECKPOINTS):
        raise ValueError(f"{folder}: all its checkpoints are damaged; choose another folder to start again")
    if checkpoint is None and resume:
        start_again(folder)
    content, environment = files.content(), dict(files.environment)
    if checkpoint is not None:
        # first: `refuse_changes` would show an edit of the run's own file as a change that the command makes
        check_run_files(folder, checkpoint)
        refuse_changes(folder, checkpoint, content, may_change)
        environment[RESUMED] = resumptions(folder, checkpoint.step, environment)
        rename_damaged(checkpoint)
        logger.info("%s: continues from checkpoint %d, the newest undamaged one", folder, checkpoint.step)
    kept = () if checkpoint is None else files_to_keep(folder, checkpoint, files.training)
    for name, data in content.items():
        if name not in kept:
            replace_file(folder / name, data)
    # no checkpoint records the hashes of these two
    environment["files"] = {name: digest(folder / name) for name in (TRAINING, REQUEST) if name in content}
    replace_file(folder / ENVIRONMENT, seal(environment))
    there = [folder / name for name in (CONFIG, TASK, *TOKENIZER, DATA)]
    depends = {path.name: digest(path) for path in there if path.exists()}
    return Run(folder, checkpoint, lock, depends, content[TRAINING])


def start_again(folder: Path) -> None:
    """Log that a run to resume has no checkpoint, and set aside the log of its earlier start."""
    log, kept = folder / METRICS, ""
    if log.is_file() and log.stat().st_size:
        kept = f"; the log of an earlier start is kept as {set_aside(log)}"
    logger.warning("%s has no checkpoint yet; starting from step 0%s", folder, kept)


def files_to_keep(folder: Path, checkpoint: Checkpoint, training: Tree) -> list[str]:
    """The files of a resumed run that are not written again.

    Those whose hashes the checkpoint records must not change by a byte. With fewer steps than the run has done, nothing
    is left to train, and the next --resume still finds the length and the changes of before.
    """
    asked = training.get("steps")
    unused = [TRAINING, REQUEST] if isinstance(asked, int) and asked < checkpoint.step else []
    return [*checkpoint.run_files, *(name for name in unused if (folder / name).exists())]


def join_run(folder: Path) -> Run:
    """Open the run that the main process has started, in another process of the same training."""
    return Run(folder, latest(folder / CHECKPOINTS), None)


def check_folder(folder: Path, resume: bool, resumable: bool = True) -> None:
    """Refuse a folder that holds anything but a run to resume.

    Args:
        resumable: whether the command has `--resume`, for the message.

    Raises:
        ValueError: it is a file, is not empty and not a run, holds a run (without `resume`), is a broken link, or
            another process writes to it.
    """
    there = [name for name in names_in(folder) if name != LOCK]
    for place in (folder / CHECKPOINTS, folder, *folder.parents):
        if os.path.islink(place) and not os.path.exists(place):  # neither raises an error without permission
            raise ValueError(f"{place}: is a broken link; choose another folder")
    if not there:
        return
    if CONFIG not in there:
        raise ValueError(f"{folder}: is not empty and not a run ({first_few(there)}); choose a new folder")
    if (writer := writer_of(folder)) not in (None, str(os.getpid())):  # before hours of tokenizing
        raise ValueError(in_use(folder, writer))
    if not resume:
        held = "already holds a run" if CHECKPOINTS in there else "holds a run without a checkpoint"
        advice = "continue it with --resume, or choose another folder" if resumable else "choose another folder"
        raise ValueError(f"{folder}: {held}; {advice}")


def refuse_unwritable_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to, before hours of work: write `PROBE` bytes to a file, and lock it.

    Raises:
        ValueError: the folder cannot be created or written to (a full disk), or its file system has no locks.
    """
    try:
        nearest = next(place for place in (folder, *folder.absolute().parents) if exists(place))
        with TemporaryFile(dir=nearest) as probe:  # an unnamed file, so that even a kill leaves nothing
            probe.write(bytes(PROBE))
            probe.flush()
            os.fsync(probe.fileno())
            fcntl.flock(probe, fcntl.LOCK_EX)
    except OSError as error:
        raise ValueError(cannot_be_written(folder, error)) from None


def cannot_be_written(place: object, error: OSError) -> str:
    """The message for a folder that cannot be written to, or whose file system has no locks."""
    if error.errno in NO_LOCKS:
        return f"{place}: its file system has no locks ({error.strerror}); choose a folder on another disk"
    return f"{place}: cannot be written: {error.strerror or error}"
