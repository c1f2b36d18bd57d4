"""Checkpoints: one folder each, with safetensors, JSON and a manifest of hashes; written atomically."""

import logging
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from zoo.disk import sync
from zoo.runs.files import (
    REPLACED,
    check_file,
    digest,
    make_aside,
    move_into_place,
    read_json,
    read_sealed,
    readable,
    remove_folder,
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
PUBLISHED = ("average", "ema", "merged", "weights")  # a user of the run gets the first of these that a checkpoint has
KEYS = {"format": int, "step": int, "metrics_bytes": int, "metrics_sha256": str, "run": dict, "files": dict}
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files were found to be what its manifest says.

    Args:
        step: optimizer steps done.
        files: SHA-256 of its files: state, settings, and tensors as `weights`, `optimizer`, `ema` and `average`.
        mark: how far metrics.jsonl was.
        run_files: SHA-256 of the run's files that the weights depend on.
    """

    folder: Path
    step: int
    files: Mapping[str, str]
    mark: Mark
    run_files: Mapping[str, str]

    @property
    def state(self) -> Tree:
        return read_json(self.folder / STATE)

    @property
    def untrained(self) -> tuple[str, ...]:
        """The heads whose weights are newly initialised: what was imported lacks them."""
        return tuple(self.state.get("untrained", ()))

    @property
    def training(self) -> Tree:
        """The settings it was trained with."""
        return read_yaml(self.folder / TRAINING)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of tensors it has."""
        return tuple(Path(name).stem for name in self.files if name.endswith(".safetensors"))

    def tensors(self, kind: str) -> dict[str, Tensor]:
        return read_tensors(self.folder / f"{kind}.safetensors")

    @property
    def published_kind(self) -> str:
        """Which tensors are the ones to use: the averaged ones where they were kept."""
        return next(kind for kind in PUBLISHED if kind in self.kinds)

    @property
    def published(self) -> dict[str, Tensor]:
        """The weights to use."""
        return self.tensors(self.published_kind)


def write_checkpoint(
    folder: Path,
    tensors: Mapping[str, Mapping[str, Tensor]],
    state: Tree,
    training: bytes,
    mark: Mark,
    run_files: Mapping[str, str],
    beside: Mapping[str, Tree] = {},
) -> None:
    """Write a checkpoint under another name, and rename it to its step once the disk has all of it.

    Args:
        tensors: `weights`, and what there is of `optimizer`, `ema` and `average`.
        training: the content of training.yaml.
        mark: how far metrics.jsonl is.
        run_files: SHA-256 of the run's files that the weights depend on.
        beside: what else other programs need to read the tensors, by the name of a JSON file.

    Raises:
        RuntimeError: it cannot be written (a full disk); what was there before is untouched.
    """
    aside = make_aside(folder)
    try:
        for kind, named in tensors.items():
            write_tensors(aside / f"{kind}.safetensors", named)
            sync(aside / f"{kind}.safetensors")
        write_file(aside / STATE, to_json(state))
        write_file(aside / TRAINING, training)
        for name, tree in beside.items():
            write_file(aside / f"{name}.json", to_json(tree))
        files = {path.name: digest(path) for path in sorted(aside.iterdir())}
        own = {"format": FORMAT, "step": int(folder.name), "run": dict(run_files), "files": files}
        # the manifest is the last file: a folder without one was never finished
        write_file(aside / MANIFEST, seal({**own, "metrics_bytes": mark.bytes, "metrics_sha256": mark.chain}))
        move_into_place(aside, folder)
    except (OSError, RuntimeError) as error:
        shutil.rmtree(aside, ignore_errors=True)
        with suppress(OSError):  # if the disk fails here, too, --resume gives the old one its name back
            restore_replaced(folder.parent)
        raise RuntimeError(f"{folder}: cannot write the checkpoint: {error}; any earlier one is untouched") from error


def verify(folder: Path, unread: Collection[str] = ()) -> Checkpoint:
    """Check every file of a checkpoint against its manifest.

    Args:
        unread: files that the caller is not going to read; they are not checked.

    Raises:
        ValueError: something is missing, damaged or of a newer format; the message names the file.
    """
    found = read_manifest(folder)
    for name, written in found.files.items():
        if name not in unread:
            check_file(folder / name, written, "the checkpoint's manifest")
    return found


def read_manifest(folder: Path) -> Checkpoint:
    """A checkpoint as its manifest describes it, without a look at its other files.

    Raises:
        ValueError: the manifest is missing, damaged or of a newer format.
    """
    path = folder / MANIFEST
    manifest = read_sealed(path)
    written = manifest.get("format")
    if isinstance(written, int) and written > FORMAT:
        raise ValueError(f"{path}: written in format {written}, but this zoo reads up to {FORMAT}; upgrade zoo")
    # its hash shows damage; what follows holds for a manifest that somebody wrote with a hash of their own
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
    """The steps that have a checkpoint, newest first; what is no folder is one that is broken."""
    with readable(checkpoints):
        names = os.listdir(checkpoints) if checkpoints.is_dir() else []
    return sorted((int(name) for name in names if name.isdecimal() and name == str(int(name))), reverse=True)


def is_begun(checkpoints: Path) -> bool:
    """Whether a run has a whole checkpoint, or one that was being replaced at a kill, which resuming restores."""
    return latest(checkpoints) is not None or any(checkpoints.glob(f"{REPLACED}*"))


def whole(checkpoints: Path, unread: Collection[str] = ()) -> Iterator[Checkpoint]:
    """The checkpoints that are whole but for files left `unread`, newest first; others are logged with the reason."""
    for step in steps(checkpoints):
        try:
            yield verify(checkpoints / str(step), unread)
        except ValueError as reason:
            logger.warning("skipped checkpoint %d: %s", step, reason)


def latest(checkpoints: Path, unread: Collection[str] = ()) -> Checkpoint | None:
    """The newest checkpoint that is whole, but for files left `unread`; None where there is none."""
    return next(whole(checkpoints, unread), None)


def prune(checkpoints: Path, keep: int, best: int | None) -> None:
    """Delete all but the last `keep` checkpoints and the best one, and nothing unless the newest is whole.

    Checkpoints that only a signal asked for are deleted and not counted.
    """
    found = steps(checkpoints)
    lasting = [step for step in found[1:] if not is_passing(checkpoints / str(step))]
    old = [step for step in found[1:] if step not in lasting[: keep - 1] and step != best]
    if not old:
        return
    try:
        verify(checkpoints / str(found[0]))
    except ValueError as reason:
        logger.warning("older checkpoints are kept, because the newest is damaged: %s", reason)
        return
    for step in old:
        remove_folder(checkpoints / str(step))


def is_passing(folder: Path) -> bool:
    """Whether only a signal made a checkpoint, so that the next save deletes it; one that cannot be read is kept."""
    try:
        return bool(read_manifest(folder).state.get("passing"))
    except ValueError:
        return False
