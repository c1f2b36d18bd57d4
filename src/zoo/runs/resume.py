"""What must be as it was for a run to continue, what may differ, and what is said about it."""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from zoo.config import Tree, parse_yaml
from zoo.runs.checkpoint import Checkpoint, steps
from zoo.runs.environment import changes, read_environment
from zoo.runs.files import parse_json, remove_folder
from zoo.runs.layout import DATA, ENVIRONMENT, REQUEST, TRAINING

SHOWN = 5
BASE = "base"  # the one section of request.yaml that decides something the other files do not have
RESOLVED = "training"  # a section of a model or task, which training.yaml has with all that is laid over it
logger = logging.getLogger(__name__)


def compare(folder: Path, checkpoint: Checkpoint, content: Mapping[str, bytes], may_change: Mapping[str, str]) -> None:
    """Refuse to continue a run with other settings, another tokenizer or other data; report what may change.

    Args:
        content: what the run's files would now be.
        may_change: keys of training.yaml, and what can differ when one changes.

    Raises:
        ValueError: with the first settings that differ, old and new.
    """
    faults = []
    for name, data in content.items():
        for key, change in changed(name, read_before(folder, checkpoint, name), data, str(folder / name)):
            section = key.split(".")[0]
            if name == TRAINING and section in may_change:
                also = may_change[section]
                logger.warning("%s continues with another %s: %s%s", folder, key, change, also and f" ({also})")
            elif section != RESOLVED and (name != REQUEST or section == BASE):
                faults.append(f"{name}: {key}: {change}" if key else f"{name} is another one")
    if faults:
        raise ValueError(f"{folder}: cannot be resumed with other settings: {'; '.join(faults[:SHOWN])}")


def read_before(folder: Path, checkpoint: Checkpoint, name: str) -> bytes:
    """What a file of the run was when the checkpoint was written.

    Raises:
        ValueError: it is missing.
    """
    path = checkpoint.folder / name if name == TRAINING else folder / name
    if not path.is_file():
        raise ValueError(f"{path}: no such file; the run is not complete")
    return path.read_bytes()


def changed(name: str, old: bytes, new: bytes, place: str) -> Iterable[tuple[str, str]]:
    """What differs between two versions of a file: keys and how, or one empty key where it has none."""
    if old == new:
        return
    if name.endswith(".yaml"):
        yield from differences(*(parse_yaml(data.decode("utf-8", "replace"), place) for data in (old, new)))
    elif name == DATA:
        before, now = parse_json(old, place), parse_json(new, place)
        for split in dict.fromkeys([*before, *now]):
            if before.get(split) != now.get(split):
                yield split, "the data is not what the run began with"
    else:
        yield "", ""


def differences(old: Any, new: Any, place: str = "") -> Iterable[tuple[str, str]]:
    """The keys that differ between two trees, and how."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from differences(old.get(key), new.get(key), f"{place}.{key}" if place else str(key))
    elif old != new:
        yield place, f"{old!r} -> {new!r}"


def warn_of_changes(folder: Path, now: Tree) -> Tree:
    """Say what may keep a resumed run from being the same to the last bit; the environment it ran in before."""
    try:
        before = read_environment(folder / ENVIRONMENT)
    except ValueError as reason:
        logger.warning("%s; whether the resumed run is the same to the last bit cannot be said", reason)
        return {}
    for change in changes(before, now):
        logger.warning("%s: %s", folder, change)
    return before


def set_aside_broken(checkpoint: Checkpoint) -> None:
    """Rename broken checkpoints that are newer than the one continued from, so that they count as none."""
    checkpoints = checkpoint.folder.parent
    for step in steps(checkpoints):
        if step > checkpoint.step:
            remove_folder(checkpoints / f"{step}.broken")
            (checkpoints / str(step)).rename(checkpoints / f"{step}.broken")
