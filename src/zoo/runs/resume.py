"""What must be unchanged for a run to continue, what may differ, and what is reported then."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from zoo.runs.checkpoint import Checkpoint, steps
from zoo.runs.environment import changes
from zoo.runs.files import check_file, read_sealed, readable, remove_folder
from zoo.runs.layout import DATA, ENVIRONMENT, METRICS, REQUEST, TRAINING
from zoo.strict_json import parse_json
from zoo.strict_yaml import Tree, parse_yaml
from zoo.wording import first_few

BASE = "base"  # the one section of request.yaml that decides something the other files do not have
RESUMED = "resumed"  # in environment.json
RESOLVED = "training"  # a section of a model or task, which training.yaml has with all that is laid over it
logger = logging.getLogger(__name__)


def compare(folder: Path, checkpoint: Checkpoint, content: Mapping[str, bytes], may_change: Mapping[str, str]) -> None:
    """Refuse to continue a run with other settings, another tokenizer or other data; report what may change.

    Args:
        content: what the run's files would now be.
        may_change: keys of training.yaml, with all below them, and what can differ when one changes.

    Raises:
        ValueError: with the first settings that differ, old and new; or something else stands where a file is written.
    """
    for place in (folder / name for name in (*content, ENVIRONMENT, METRICS)):
        if place.exists() and not place.is_file():
            raise ValueError(f"{place}: is not a file, but the run needs one there; move it away")
    faults, changed = [], []
    for name, data in content.items():
        before = (checkpoint.folder if name == TRAINING else folder) / name  # --resume may have changed the run's own
        if not before.is_file():
            raise ValueError(f"{before}: no such file; the run is incomplete")
        with readable(before):
            there = before.read_bytes()
        for key, old, new in differences(*(parse(name, read, str(before)) for read in (there, data))):
            section = key.split(".")[0]
            change = "the data is not that of the run" if name == DATA else f"{old!r} -> {new!r}"
            allowed = next((part for part in (section, key) if part in may_change), None)
            if name == TRAINING and allowed is not None:
                also = may_change[allowed]
                changed.append(f"{key}: {change}{also and f' ({also})'}")
            elif section != RESOLVED and (name != REQUEST or section == BASE):
                faults.append(f"{name}: {key}: {change}" if key else f"{name} differs")
    if faults:
        raise ValueError(f"{folder}: cannot be resumed with other settings: {first_few(faults, '; ')}")
    for change in changed:  # only now: what is refused does not continue
        logger.warning("%s continues with changed %s", folder, change)


def parse(name: str, content: bytes, place: str) -> Any:
    """What a file of a run holds: a tree of settings or hashes, or its bytes where it is the tokenizer's."""
    if name.endswith(".yaml"):
        return parse_yaml(content.decode("utf-8", "replace"), place)
    return parse_json(content, place) if name == DATA else content


def differences(old: Any, new: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The keys that differ between two trees, with both values; one empty key where they are not trees."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from differences(old.get(key), new.get(key), f"{place}.{key}" if place else str(key))
    elif old != new:
        yield place, old, new


def resumptions(folder: Path, step: int, now: Tree) -> list[Tree]:
    """Each time that a run was resumed: after which step, and in which environment it ran before.

    A flat list: nested in each other, they would be too deep for JSON where a run is stopped hundreds of times.
    """
    before = warn_of_changes(folder, now)
    earlier: list[Tree] = before.pop(RESUMED, [])
    return [*earlier, {"step": step, "before": before}]


def warn_of_changes(folder: Path, now: Tree) -> Tree:
    """Warn of what may keep a resumed run from being the same; the environment that it ran in before."""
    try:
        before = read_sealed(folder / ENVIRONMENT)
    except ValueError as reason:
        logger.warning("%s; zoo cannot tell whether the resumed run is bit-identical", reason)
        return {}
    if written := before.get("files", {}).get(REQUEST):
        try:
            check_file(folder / REQUEST, written, ENVIRONMENT)
        except ValueError as reason:  # a kill between the two files leaves them so, too: no reason to refuse
            logger.warning("%s; the run continues with the changes that it lists now", reason)
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
