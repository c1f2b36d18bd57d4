"""Checkpoints: one folder each with safetensors, JSON and a manifest of hashes; whole or not there at all."""

import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from torch import Tensor

from zoo.config import Tree, read_yaml
from zoo.runs.files import (
    REPLACED,
    digest,
    make_aside,
    move_into_place,
    read_json,
    remove_folder,
    restore_replaced,
    seal,
    sync,
    to_json,
    write_file,
)
from zoo.runs.layout import MANIFEST, STATE, TRAINING
from zoo.runs.metrics import Mark
from zoo.runs.tensors import read_tensors, write_tensors

FORMAT = 1
PUBLISHED = ("average", "ema", "weights")  # which tensors a run's user gets: the first of these that is there
TYPES: dict[str, type] = {
    **dict.fromkeys(("format", "step", "metrics_bytes"), int),
    **dict.fromkeys(("metrics_sha256", "sha256"), str),
    **dict.fromkeys(("run", "files"), dict),
}
Named = Mapping[str, Tensor]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files were found to be what its manifest says.

    Args:
        step: optimizer steps done.
        files: the names of its files: state, settings, and tensors as `weights`, `optimizer`, `ema` and `average`.
        mark: how far metrics.jsonl was.
        run_files: SHA-256 of the run's files that the weights depend on.
    """

    folder: Path
    step: int
    files: tuple[str, ...]
    mark: Mark
    run_files: Mapping[str, str]

    @property
    def state(self) -> Tree:
        return read_json(self.folder / STATE)

    @property
    def passing(self) -> bool:
        """Whether a signal made it, and the run would not have it otherwise: the next save deletes it."""
        return bool(self.state.get("passing"))

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
    def published_sha256(self) -> str:
        """The SHA-256 of the file of the weights to use."""
        name = next(f"{kind}.safetensors" for kind in PUBLISHED if kind in self.kinds)
        return str(read_json(self.folder / MANIFEST)["files"][name]["sha256"])

    @property
    def published(self) -> dict[str, Tensor]:
        """The weights to use: the averaged ones where they were kept."""
        return self.tensors(next(kind for kind in PUBLISHED if kind in self.kinds))


@dataclass(frozen=True)
class Content:
    """What a checkpoint is to hold.

    Args:
        tensors: `weights`, and what there is of `optimizer`, `ema` and `average`.
        training: the content of training.yaml.
        mark: how far metrics.jsonl is.
        run_files: SHA-256 of the run's files that the weights depend on.
    """

    tensors: Mapping[str, Named]
    state: Tree
    training: bytes = b"{}\n"
    mark: Mark = Mark()
    run_files: Mapping[str, str] = field(default_factory=dict)


def write_checkpoint(folder: Path, content: Content) -> None:
    """Write a checkpoint aside and give it its name, which is its step, when the disk has all of it.

    Raises:
        RuntimeError: it cannot be written (a full disk); what was there before is untouched.
    """
    aside = make_aside(folder)
    try:
        for kind, named in content.tensors.items():
            write_tensors(aside / f"{kind}.safetensors", named)
            sync(aside / f"{kind}.safetensors")
        write_file(aside / STATE, to_json(content.state))
        write_file(aside / TRAINING, content.training)
        files = {path.name: {"size": path.stat().st_size, "sha256": digest(path)} for path in sorted(aside.iterdir())}
        manifest: Tree = {
            "format": FORMAT,
            "step": int(folder.name),
            "metrics_bytes": content.mark.bytes,
            "metrics_sha256": content.mark.chain,
            "run": dict(content.run_files),
            "files": files,
        }
        write_file(aside / MANIFEST, seal(manifest))
        move_into_place(aside, folder)
    except (OSError, RuntimeError) as error:
        shutil.rmtree(aside, ignore_errors=True)
        with suppress(OSError):  # a disk that fails here, too: --resume gives it its name back
            restore_replaced(folder.parent)
        raise RuntimeError(f"{folder}: cannot write the checkpoint: {error}; the earlier ones are untouched") from error


def verify(folder: Path) -> Checkpoint:
    """Check every file of a checkpoint against its manifest.

    Raises:
        ValueError: something is missing, damaged or of a newer format; the message names the file.
    """
    found = read_manifest(folder)
    for name, entry in read_json(folder / MANIFEST)["files"].items():
        check_file(folder / name, entry)
    return found


def read_manifest(folder: Path) -> Checkpoint:
    """A checkpoint as its manifest has it; its other files are not looked at.

    Raises:
        ValueError: the manifest is missing, damaged or of a newer format.
    """
    path = folder / MANIFEST
    manifest = read_json(path)
    check_manifest(manifest, path)
    if str(manifest["step"]) != folder.name:
        raise ValueError(f"{path}: is damaged, it is of step {manifest['step']}")
    if "weights.safetensors" not in manifest["files"]:
        raise ValueError(f"{path}: is damaged, it lists no weights.safetensors")
    mark = Mark(manifest["metrics_bytes"], manifest["metrics_sha256"])
    return Checkpoint(folder, manifest["step"], tuple(manifest["files"]), mark, manifest["run"])


def check_manifest(manifest: Mapping[str, Any], path: Path) -> None:
    """Refuse a manifest that this version cannot read, or that is not what was written."""
    written = manifest.get("format")
    if isinstance(written, int) and written > FORMAT:
        raise ValueError(f"{path}: written in format {written}, this zoo reads up to {FORMAT}; upgrade zoo")
    for key, kind in TYPES.items():
        if key not in manifest or not isinstance(manifest[key], kind):
            raise ValueError(f"{path}: is damaged, '{key}' is missing or of another type")
    for key in manifest:
        if key not in TYPES:
            raise ValueError(f"{path}: is damaged, it has a key '{key}'")
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    if sha256(to_json(rest)).hexdigest() != manifest["sha256"]:
        raise ValueError(f"{path}: is damaged, its content is not what was written (SHA-256 differs)")
    for name, entry in manifest["files"].items():
        if Path(name).name != name or not isinstance(entry, dict) or entry.keys() != {"size", "sha256"}:
            raise ValueError(f"{path}: is damaged, it lists the file '{name}'")


def check_file(path: Path, entry: Mapping[str, Any]) -> None:
    """Refuse a file that is not the one that was written."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file, but the checkpoint's manifest lists it")
    size = path.stat().st_size
    if size != entry["size"]:
        raise ValueError(f"{path}: is damaged, it has {size} bytes instead of {entry['size']}")
    if digest(path) != entry["sha256"]:
        raise ValueError(f"{path}: is damaged, its content is not what was written (SHA-256 differs)")


def steps(checkpoints: Path) -> list[int]:
    """The steps that have a checkpoint folder, newest first."""
    names = [path.name for path in checkpoints.iterdir() if path.is_dir()] if checkpoints.is_dir() else []
    return sorted((int(name) for name in names if name.isdecimal() and name == str(int(name))), reverse=True)


def is_begun(checkpoints: Path) -> bool:
    """Whether a run has a whole checkpoint, or one that was being replaced at a kill, which resuming restores."""
    return latest(checkpoints) is not None or any(checkpoints.glob(f"{REPLACED}*"))


def whole(checkpoints: Path) -> Iterator[Checkpoint]:
    """The checkpoints that are whole, newest first; each of the others is logged with the reason."""
    for step in steps(checkpoints):
        try:
            yield verify(checkpoints / str(step))
        except ValueError as reason:
            logger.warning("checkpoint %d is skipped: %s", step, reason)


def latest(checkpoints: Path) -> Checkpoint | None:
    """The newest whole checkpoint; None where there is none."""
    return next(whole(checkpoints), None)


def prune(checkpoints: Path, keep: int, best: int | None) -> None:
    """Delete all but the last `keep` checkpoints and the best one, and nothing unless the newest is whole.

    Those that are passing are deleted and not counted.
    """
    found = steps(checkpoints)
    lasting = [step for step in found[1:] if not is_passing(checkpoints / str(step))]
    old = [step for step in found[1:] if step not in lasting[: keep - 1] and step != best]
    if not old:
        return
    try:
        verify(checkpoints / str(found[0]))
    except ValueError as reason:
        logger.warning("older checkpoints are kept, because the newest is broken: %s", reason)
        return
    for step in old:
        remove_folder(checkpoints / str(step))


def is_passing(folder: Path) -> bool:
    """Whether a checkpoint is passing; one that cannot be read is none."""
    try:
        return Checkpoint(folder, 0, (), Mark(), {}).passing
    except ValueError:
        return False
