"""Resuming: which settings must be unchanged, which may change, and what is reported."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from zoo.runs.checkpoint import Checkpoint, steps
from zoo.runs.environment import changes
from zoo.runs.files import check_file, read_sealed, refuse_unreadable, remove_folder
from zoo.runs.layout import DATA, ENVIRONMENT, METRICS, REQUEST, TRAINING
from zoo.runs.request import is_lost
from zoo.strict_json import parse_json
from zoo.strict_yaml import Tree, parse_yaml
from zoo.wording import first_few

BASE = "base"  # the only section of request.yaml that decides something no other file holds
RESUMED = "resumed"  # key of environment.json
CHANGED_DATA = "the data is not that of the run, or this version of zoo reads it differently"
RESOLVED = "training"  # a section of config.yaml and task.yaml; training.yaml holds its resolved values
logger = logging.getLogger(__name__)


def refuse_changes(
    folder: Path, checkpoint: Checkpoint, content: Mapping[str, bytes], may_change: Mapping[str, str]
) -> None:
    """Refuse to continue a run with other settings, tokenizer or data; log the changes that are allowed.

    None is allowed if request.yaml is lost: zoo cannot tell them from changes that are not repeated.

    Args:
        content: file name -> the content that the run's files would now have.
        may_change: key or section of training.yaml that may change -> what else can differ then.

    Raises:
        ValueError: a setting differs (the first few, old and new), or a folder or device has the name of a file.
    """
    for place in (folder / name for name in (*content, ENVIRONMENT, METRICS)):
        if place.exists() and not place.is_file():
            raise ValueError(f"{place}: is not a file, but the run needs one there; move it away")
    faults, changed, lost = [], [], is_lost(folder)
    for name, data in content.items():
        if name == REQUEST and lost:
            continue
        before = (checkpoint.folder if name == TRAINING else folder) / name  # --resume rewrites the run's copy
        if not before.is_file():
            imported = "; an imported model has none: train that into another folder" if name == REQUEST else ""
            raise ValueError(f"{before}: no such file, but --resume needs it{imported}")
        with refuse_unreadable(before):
            there = before.read_bytes()
        for key, old, new in differences(*(parse(name, read, str(before)) for read in (there, data))):
            section = key.split(".")[0]
            change = CHANGED_DATA if name == DATA else f"{old!r} -> {new!r}"
            allowed = next((part for part in (section, key) if part in may_change), None)
            if name == TRAINING and allowed is not None and not lost:
                also = may_change[allowed]
                changed.append(f"{key}: {change}{also and f' ({also})'}")
            elif section != RESOLVED and (name != REQUEST or section == BASE):
                faults.append(f"{name}: {key}: {change}" if key else f"{name} differs")
    if faults and lost:
        said = "is lost, and with it the changes of the first command; repeat them: these settings differ"
        raise ValueError(f"{folder / REQUEST}: {said}: {first_few(faults, '; ')}")
    if faults:
        raise ValueError(f"{folder}: cannot be resumed with other settings: {first_few(faults, '; ')}")
    for change in changed:  # logged only once nothing is refused
        logger.warning("%s continues with changed %s", folder, change)


def parse(name: str, content: bytes, place: str) -> Any:
    """The content of a run's file: a tree for YAML and data.json, raw bytes for the tokenizer's files."""
    if name.endswith(".yaml"):
        return parse_yaml(content.decode("utf-8", "replace"), place)
    return parse_json(content, place) if name == DATA else content


def differences(old: Any, new: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (dotted key, old, new) for each value that differs; the key is empty if `old` and `new` are not trees."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from differences(old.get(key), new.get(key), f"{place}.{key}" if place else str(key))
    elif old != new:
        yield place, old, new


def resumptions(folder: Path, step: int, now: Tree) -> list[Tree]:
    """The list of a run's resumptions: the step of each, and the environment before it.

    The list is flat: environments nested in one another would be too deep for JSON after hundreds of resumptions.
    """
    before = warn_of_changes(folder, now)
    earlier: list[Tree] = before.pop(RESUMED, [])
    return [*earlier, {"step": step, "before": before}]


def warn_of_changes(folder: Path, now: Tree) -> Tree:
    """Log what may make a resumed run differ from an uninterrupted one; returns the previous environment."""
    try:
        before = read_sealed(folder / ENVIRONMENT)
    except ValueError as reason:
        logger.warning("%s; zoo cannot tell whether the resumed run is bit-identical", reason)
        return {}
    if written := before.get("files", {}).get(REQUEST):
        try:
            check_file(folder / REQUEST, written, ENVIRONMENT)
        except ValueError as reason:  # a kill between writing the two files causes this too, so do not refuse
            taken = "it lists now" if (folder / REQUEST).exists() else "this command makes"
            logger.warning("%s; the run continues with the changes that %s", reason, taken)
    for change in changes(before, now):
        logger.warning("%s: %s", folder, change)
    return before


def rename_damaged(checkpoint: Checkpoint) -> None:
    """Rename damaged checkpoints newer than the one resumed from to `<step>.broken`, so that they are ignored."""
    checkpoints = checkpoint.folder.parent
    for step in steps(checkpoints):
        if step > checkpoint.step:
            remove_folder(checkpoints / f"{step}.broken")
            (checkpoints / str(step)).rename(checkpoints / f"{step}.broken")
