"""Checkpoints: one folder each with safetensors, JSON and a manifest of hashes; whole or not there at all."""

import logging
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from zoo.config import Tree
from zoo.runs.files import digest, make_aside, move_into_place, read_json, remove_folder, sync, to_json, write_file
from zoo.runs.tensors import read_tensors, write_tensors

FORMAT = 1
MANIFEST, STATE = "manifest.json", "state.json"
PUBLISHED = ("average", "ema", "weights")  # which tensors a run's user gets: the first of these that is there
Named = Mapping[str, Tensor]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files were found to be what its manifest says.

    Args:
        step: optimizer steps done.
        kinds: the tensor files it has: `weights`, `optimizer`, `ema`, `average`.
        metrics_bytes: how long metrics.jsonl was.
        run_files: SHA-256 of the run's files that the weights depend on.
    """

    folder: Path
    step: int
    kinds: tuple[str, ...]
    metrics_bytes: int
    run_files: Mapping[str, str]

    @property
    def state(self) -> Tree:
        return read_json(self.folder / STATE)

    def tensors(self, kind: str) -> dict[str, Tensor]:
        return read_tensors(self.folder / f"{kind}.safetensors")

    @property
    def published(self) -> dict[str, Tensor]:
        """The weights to use: the averaged ones where they were kept."""
        return self.tensors(next(kind for kind in PUBLISHED if kind in self.kinds))


def write_checkpoint(
    folder: Path, tensors: Mapping[str, Named], state: Tree, metrics_bytes: int, run_files: Mapping[str, str]
) -> Checkpoint:
    """Write a checkpoint aside and give it its name, which is its step, when the disk has all of it.

    Raises:
        RuntimeError: it cannot be written (a full disk); what was there before is untouched.
    """
    aside = make_aside(folder)
    try:
        for kind, named in tensors.items():
            write_tensors(aside / f"{kind}.safetensors", named)
            sync(aside / f"{kind}.safetensors")
        write_file(aside / STATE, to_json(state))
        files = {path.name: {"size": path.stat().st_size, "sha256": digest(path)} for path in sorted(aside.iterdir())}
        known = {"format": FORMAT, "step": int(folder.name), "metrics_bytes": metrics_bytes, "run": dict(run_files)}
        write_file(aside / MANIFEST, to_json({**known, "files": files}))
        move_into_place(aside, folder)
    except (OSError, RuntimeError) as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise RuntimeError(f"{folder}: cannot write the checkpoint: {error}; the earlier ones are untouched") from error
    return Checkpoint(folder, int(folder.name), tuple(tensors), metrics_bytes, run_files)


def verify(folder: Path) -> Checkpoint:
    """Check every file of a checkpoint against its manifest.

    Raises:
        ValueError: something is missing, damaged or of a newer format; the message names the file.
    """
    path = folder / MANIFEST
    manifest = read_json(path)
    check_manifest(manifest, path)
    for name, entry in manifest["files"].items():
        check_file(folder / name, entry)
    kinds = tuple(Path(name).stem for name in manifest["files"] if name.endswith(".safetensors"))
    if "weights" not in kinds:
        raise ValueError(f"{path}: is damaged, it lists no weights.safetensors")
    return Checkpoint(folder, manifest["step"], kinds, manifest["metrics_bytes"], manifest["run"])


def check_manifest(manifest: Mapping[str, Any], path: Path) -> None:
    """Refuse a manifest that this version cannot read."""
    written = manifest.get("format")
    if isinstance(written, int) and written > FORMAT:
        raise ValueError(f"{path}: written in format {written}, this zoo reads up to {FORMAT}; upgrade zoo")
    wanted = {"format": int, "step": int, "metrics_bytes": int, "run": dict, "files": dict}
    for key, kind in wanted.items():
        if not isinstance(manifest.get(key), kind):
            raise ValueError(f"{path}: is damaged, '{key}' is missing or of another type")
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
    """Delete all but the last `keep` checkpoints and the best one, and nothing unless the newest is whole."""
    found = steps(checkpoints)
    old = [step for step in found[keep:] if step != best]
    if not old:
        return
    try:
        verify(checkpoints / str(found[0]))
    except ValueError as reason:
        logger.warning("older checkpoints are kept, because the newest is broken: %s", reason)
        return
    for step in old:
        remove_folder(checkpoints / str(step))
