"""Checkpoints: one folder each, with safetensors, JSON and a manifest of hashes; written atomically."""

import logging
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from zoo.disk import is_folder, sync
from zoo.runs.files import (
    REPLACED,
    check_file,
    digest,
    make_temporary_folder,
    read_json,
    read_sealed,
    refuse_unreadable,
    remove_folder,
    replace_folder,
    restore_replaced,
    seal,
    to_json,
    write_file,
)
from zoo.runs.layout import MANIFEST, STATE, TRAINING
from zoo.runs.metrics import Mark
from zoo.runs.tensors import read_tensors, write_tensors
from zoo.strict_yaml import Tree, read_yaml

FORMAT = 1
PUBLISHED = ("average", "ema", "merged", "weights")  # a checkpoint is used with the first of these that it has
KEYS = {"format": int, "step": int, "metrics_bytes": int, "metrics_sha256": str, "run": dict, "files": dict}
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as its manifest describes it; `verify` also compares the files with their hashes.

    Args:
        step: optimizer steps done.
        files: file name -> SHA-256: state, settings, and tensors (`weights`, `optimizer`, `ema`, `average`, `merged`).
        mark: length and hash of metrics.jsonl when it was written.
        run_files: name -> SHA-256 of the run's files that the weights depend on (config, task, tokenizer, data).
    """

    folder: Path
    step: int
    files: Mapping[str, str]
    mark: Mark
    run_files: Mapping[str, str]

    @property
    def state(self) -> Tree:
        with explain_deletion(self.folder):
            return read_json(self.folder / STATE)

    @property
    def untrained(self) -> tuple[str, ...]:
        """The heads that were newly initialized on import, because the imported model lacks them."""
        return tuple(self.state.get("untrained", ()))

    @property
    def training(self) -> Tree:
        """The training settings of this checkpoint."""
        with explain_deletion(self.folder):
            return read_yaml(self.folder / TRAINING)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of its tensor files without `.safetensors`, such as `weights` and `optimizer`."""
        return tuple(Path(name).stem for name in self.files if name.endswith(".safetensors"))

    def tensors(self, kind: str) -> dict[str, Tensor]:
        with explain_deletion(self.folder):
            return read_tensors(self.folder / f"{kind}.safetensors")

    @property
    def published_kind(self) -> str:
        """The kind of tensors to use the model with: averaged or merged weights if it has them, else `weights`."""
        return next(kind for kind in PUBLISHED if kind in self.kinds)

    @property
    def published(self) -> dict[str, Tensor]:
        """The weights to use the model with."""
        return self.tensors(self.published_kind)


@contextmanager
def explain_deletion(folder: Path) -> Iterator[None]:
    """Explain that a file is missing because its checkpoint was deleted after it was opened.

    Raises:
        ValueError: the block raised one.
    """
    try:
        yield
    except ValueError:
        if os.path.lexists(folder):
            raise
        said = "was deleted since it was opened; training deletes old checkpoints (training.keep): try again"
        raise ValueError(f"{folder}: {said}") from None


def write_checkpoint(
    folder: Path,
    tensors: Mapping[str, Mapping[str, Tensor]],
    state: Tree,
    training: bytes,
    mark: Mark,
    run_files: Mapping[str, str],
    extra_files: Mapping[str, Tree] = {},
) -> None:
    """Write a checkpoint to a temporary folder, sync it, and rename it to its step.

    Args:
        tensors: kind -> tensors by name: `weights`, and any of `optimizer`, `ema`, `average` and `merged`.
        training: the content of training.yaml.
        mark: length and hash of metrics.jsonl now.
        run_files: name -> SHA-256 of the run's files that the weights depend on.
        extra_files: name -> content of further JSON files, which other programs need to read the tensors.

    Raises:
        RuntimeError: it cannot be written (a full disk); earlier checkpoints are untouched.
    """
    temporary = make_temporary_folder(folder)
    try:
        for kind, named in tensors.items():
            write_tensors(temporary / f"{kind}.safetensors", named)
            sync(temporary / f"{kind}.safetensors")
        write_file(temporary / STATE, to_json(state))
        write_file(temporary / TRAINING, training)
        for name, tree in extra_files.items():
            write_file(temporary / f"{name}.json", to_json(tree))
        files = {path.name: digest(path) for path in sorted(temporary.iterdir())}
        own = {"format": FORMAT, "step": int(folder.name), "run": dict(run_files), "files": files}
        # written last: a folder without a manifest is an unfinished checkpoint
        write_file(temporary / MANIFEST, seal({**own, "metrics_bytes": mark.bytes, "metrics_sha256": mark.chain}))
        replace_folder(temporary, folder)
    except (OSError, RuntimeError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        with suppress(OSError):  # if this fails too, --resume renames the old checkpoint back
            restore_replaced(folder.parent)
        raise RuntimeError(f"{folder}: cannot write the checkpoint: {error}; any earlier one is untouched") from error


def verify(folder: Path, skip: Collection[str] = ()) -> Checkpoint:
    """Check every file of a checkpoint against its manifest.

    Args:
        skip: names of files to skip, because the caller does not read them.

    Raises:
        ValueError: something is missing, damaged or of a newer format; the message names the file.
    """
    found = read_manifest(folder)
    for name, written in found.files.items():
        if name not in skip:
            check_file(folder / name, written, "the checkpoint's manifest")
    return found


def read_manifest(folder: Path) -> Checkpoint:
    """Read a checkpoint's manifest; its other files are not read.

    Raises:
        ValueError: the manifest is missing, damaged or of a newer format.
    """
    path = folder / MANIFEST
    manifest = read_sealed(path)
    written = manifest.get("format")
    if isinstance(written, int) and written > FORMAT:
        raise ValueError(f"{path}: written in format {written}, but this zoo reads up to {FORMAT}; upgrade zoo")
    # the checksum above finds damage; these checks refuse a manifest crafted with a valid checksum
    if {key: type(value) for key, value in manifest.items()} != KEYS:
        raise ValueError(f"{path}: is damaged, expected the keys {', '.join(KEYS)}, each with a value of its type")
    step, files = manifest["step"], manifest["files"]
    if str(step) != folder.name:
        raise ValueError(f"{path}: is damaged, it names step {step}")
    if "weights.safetensors" not in files or any(Path(name).name != name for name in files):
        raise ValueError(f"{path}: is damaged, it lists {', '.join(files) or 'no files'}")
    mark = Mark(manifest["metrics_bytes"], manifest["metrics_sha256"])
    return Checkpoint(folder, step, files, mark, manifest["run"])


def steps(checkpoints: Path) -> list[int]:
    """The steps that have a checkpoint, newest first; broken ones, even plain files, are included."""
    with refuse_unreadable(checkpoints):
        names = os.listdir(checkpoints) if is_folder(checkpoints) else []
    return sorted((int(name) for name in names if name.isdecimal() and name == str(int(name))), reverse=True)


def can_resume(checkpoints: Path) -> bool:
    """Whether a run to resume has a checkpoint, also one whose replacement was interrupted; damage is found later."""
    return bool(steps(checkpoints)) or any(checkpoints.glob(f"{REPLACED}*"))


def undamaged_checkpoints(checkpoints: Path, skip: Collection[str] = ()) -> Iterator[Checkpoint]:
    """Yield the undamaged checkpoints, newest first, and log why others are skipped; `skip` as in `verify`.

    One that another process, which trains, deletes meanwhile is skipped without a warning.
    """
    for step in steps(checkpoints):
        try:
            yield verify(checkpoints / str(step), skip)
        except ValueError as reason:
            if os.path.lexists(checkpoints / str(step)):
                logger.warning("skipped checkpoint %d: %s", step, reason)


def latest(checkpoints: Path, skip: Collection[str] = ()) -> Checkpoint | None:
    """The newest undamaged checkpoint, or None; `skip` as in `verify`."""
    return next(undamaged_checkpoints(checkpoints, skip), None)


def prune(checkpoints: Path, keep: int, best: int | None) -> None:
    """Delete all but the last `keep` checkpoints and the best one; delete none if the newest is damaged.

    Checkpoints saved only because of a signal do not count towards `keep`: all but the newest one are deleted.
    """
    found = steps(checkpoints)
    lasting = [step for step in found[1:] if not is_signal_checkpoint(checkpoints / str(step))]
    old = [step for step in found[1:] if step not in lasting[: keep - 1] and step != best]
    if not old:
        return
    try:
        verify(checkpoints / str(found[0]))
    except ValueError as reason:
        logger.warning("older checkpoints are kept, because the newest is damaged: %s", reason)
        return
    for step in old:
        try:
            remove_folder(checkpoints / str(step))
        except OSError as error:  # no reason to end a training
            logger.warning("%s: cannot be deleted: %s", checkpoints / str(step), error.strerror)


def is_signal_checkpoint(folder: Path) -> bool:
    """Whether a checkpoint was saved only because of a signal; False if its manifest or state cannot be read."""
    try:
        return bool(read_manifest(folder).state.get("passing"))
    except ValueError:
        return False
