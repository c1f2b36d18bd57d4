"""zoo check of a run: read every file, and compare every checkpoint with its manifest."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from zoo.runs.checkpoint import Checkpoint, steps, verify
from zoo.runs.files import REPLACED, TEMPORARY_PREFIX, check_file, read_json, read_sealed
from zoo.runs.layout import CHECKPOINTS, CONFIG, DATA, ENVIRONMENT, METRICS, REQUEST, TASK, TOKENIZER, TRAINING
from zoo.runs.lock import writer_of
from zoo.runs.metrics import COST, Mark, read_metrics
from zoo.runs.saved import UNREAD, check_run_files, normalize_path
from zoo.runs.tensors import require_finite
from zoo.strict_yaml import read_yaml
from zoo.wording import counted

R = TypeVar("R")
NEEDED = "without it, the run can be neither used nor resumed"
COSTS = {  # what is lost with a file that no checkpoint depends on
    TRAINING: "no weights are lost, since each checkpoint has its own; --resume rewrites it",
    ENVIRONMENT: "no weights are lost; --resume rewrites it; the card of an export lacks what it holds",
    REQUEST: "no weights are lost; without it, --resume needs the changes of the first command again",
    METRICS: f"no weights are lost; {COST}",
}


@dataclass
class Report:
    """The result of checking a path.

    Args:
        kind: run, checkpoint, model, task, training, exported model.
        faults: what is wrong; empty if everything is undamaged.
        remarks: notes that are not faults.
    """

    kind: str
    faults: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def attempt(self, work: Callable[..., R], *given: Any, cost: str = "") -> R | None:
        """Call `work(*given)` and return its result; if it raises a ValueError, record a fault and return None.

        Args:
            cost: the consequence of the fault, appended to it.
        """
        try:
            return work(*given)
        except ValueError as fault:
            self.faults.append(f"{fault}: {cost}" if cost else str(fault))
            return None


def verify_numbers(folder: Path) -> Checkpoint:
    """Check that a checkpoint's files match its manifest and that its tensors are finite.

    Raises:
        ValueError: a file or tensor is damaged; the message names it.
    """
    found = verify(folder)
    for kind in found.kinds:
        require_finite(found.tensors(kind), f"{folder}: {kind}")
    return found


def check_run(folder: Path) -> Report:
    """Read every file of a run, and report the consequence of each damaged one."""
    report, writer = Report("run"), writer_of(folder)
    if writer is not None:
        report.remarks.append(f"process {writer} is writing to it, so its checkpoints may change")
    places = [folder / CHECKPOINTS / str(step) for step in steps(folder / CHECKPOINTS)]
    checked = [check_one_checkpoint(report, place, writer) for place in places]
    # os.path.isdir, because is_folder raises an error without permission
    there = [int(place.name) for place in places if os.path.isdir(place)]
    whole = [checkpoint for checkpoint in checked if checkpoint is not None]
    newest = whole[0] if whole else None
    check_settings(report, folder, newest)
    logged = check_metrics(report, folder, newest.mark if newest else Mark())
    report.remarks.append(
        f"undamaged checkpoints, by step: {', '.join(str(c.step) for c in reversed(whole)) or 'none'}"
    )
    if os.path.lexists(folder / CHECKPOINTS) and not (folder / CHECKPOINTS).is_dir():
        report.faults.append(f"{folder / CHECKPOINTS}: is not a folder: the run can be neither used nor resumed")
    elif newest is None and there:
        report.faults.append(f"{folder / CHECKPOINTS}: all are damaged: the run cannot be resumed")
    elif newest is None and logged and writer is None:  # deleted, or the process was killed before it saved one
        lost = f"no checkpoint, but {METRICS} has {counted(logged, 'step')}"
        report.faults.append(f"{folder / CHECKPOINTS}: {lost}: the run cannot be used; --resume starts from step 0")
    elif newest is not None and newest.step < max(there, default=0):
        report.remarks.append(f"--resume continues from checkpoint {newest.step}, the newest undamaged one")
    usable = (found or find_usable(place) for place, found in zip(places, checked, strict=True))
    check_best(report, folder, next(filter(None, usable), None), writer)
    check_leftovers(report, folder, writer)
    return report


def check_one_checkpoint(report: Report, place: Path, writer: str | None) -> Checkpoint | None:
    """Verify a checkpoint; None if damaged. One that the training process has deleted meanwhile is not a fault."""
    own = Report("checkpoint")
    found = own.attempt(verify_numbers, place)
    if writer is None or place.is_dir():
        report.faults += own.faults
    return found


def find_usable(place: Path) -> Checkpoint | None:
    """A damaged checkpoint, if RUN can stand for it, since only --resume needs what is damaged; else None."""
    try:
        return verify(place, UNREAD)
    except ValueError:
        return None


def check_settings(report: Report, folder: Path, newest: Checkpoint | None) -> None:
    """Check the settings, tokenizer and other files beside the checkpoints."""
    needed = [CONFIG, TASK, *(newest.run_files if newest else ())]
    there = [name for name in (*TOKENIZER, DATA) if (folder / name).exists()]  # a model without text has no tokenizer
    names = dict.fromkeys([*needed, TRAINING, ENVIRONMENT, *there, *recorded_hashes(folder)])
    found = [report.attempt(check_setting, folder / name, newest, cost=COSTS.get(name, NEEDED)) for name in names]
    report.remarks.append(f"undamaged: {', '.join(filter(None, found)) or 'none of its files'}")


def check_setting(path: Path, newest: Checkpoint | None) -> str:
    """Check a file against the hash in the newest checkpoint or environment.json, and return its name.

    A file with no recorded hash only has to parse.
    """
    if newest is not None and path.name in newest.run_files:
        check_file(path, newest.run_files[path.name], f"checkpoint {newest.step}")
    elif path.name in recorded_hashes(path.parent):
        check_file(path, recorded_hashes(path.parent)[path.name], ENVIRONMENT)
    elif path.name == ENVIRONMENT:
        read_sealed(path)
    else:
        (read_yaml if path.suffix == ".yaml" else read_json)(path)
    return path.name


def recorded_hashes(folder: Path) -> dict[str, str]:
    """The hashes that environment.json records of files that no checkpoint covers; empty if it cannot be read."""
    try:
        return dict(read_sealed(folder / ENVIRONMENT).get("files", {}))
    except ValueError:
        return {}


def check_best(report: Report, folder: Path, newest: Checkpoint | None, writer: str | None) -> None:
    """Report the best checkpoint, which RUN stands for, and whether it still exists."""
    best = newest.state.get("best") if newest and newest.folder.is_dir() else None
    if best and newest:
        report.remarks.append(f"best: checkpoint {best['step']}, {best['metric']} {best['value']:.6g}")
        place = folder / CHECKPOINTS / str(best["step"])
        if not place.is_dir() and writer is None:  # a running process may have replaced it by a better one
            lost = f"RUN now means the last one, {newest.step}"
            report.faults.append(f"{place}: no such folder, but it was the best checkpoint: {lost}")


def check_leftovers(report: Report, folder: Path, writer: str | None) -> None:
    """Report files left by interrupted saves, and whether they can be deleted.

    A checkpoint that was being replaced may be the only copy of its step.

    Args:
        writer: the process that writes to the run, which may own them; None if there is none.
    """
    # os.walk, because Path.glob raises an error where training deletes a folder meanwhile
    there = [Path(place, name) for place, folders, files in os.walk(folder) for name in (*folders, *files)]
    left = [path for path in there if path.name.startswith(TEMPORARY_PREFIX)]
    left += [path for path in there if path.parent == folder / CHECKPOINTS and path.suffix == ".broken"]
    for path in sorted(left):
        step = path.name.removeprefix(REPLACED)
        if writer is not None and path.name.startswith(TEMPORARY_PREFIX):
            report.remarks.append(f"{path}: belongs to process {writer}, which is running; leave it alone")
        elif step != path.name and not (path.parent / step).exists():
            report.faults.append(
                f"{path}: is checkpoint {step}, whose replacement was interrupted; --resume restores it"
            )
        else:
            report.remarks.append(
                f"{path}: left by an interrupted save, or a damaged checkpoint that was renamed; safe to delete"
            )


def check_metrics(report: Report, folder: Path, mark: Mark) -> int:
    """Check metrics.jsonl (its part up to the newest checkpoint, and one line for each step); return its steps."""
    lines = report.attempt(read_metrics, folder / METRICS, mark, cost=COSTS[METRICS])
    if lines is None:
        return 0
    lost = f"; the log before step {lines[0]['step']} was lost" if lines and lines[0]["step"] > 1 else ""
    report.remarks.append(f"{counted(len(lines), 'step')} logged{lost}")
    return len(lines)


def check_checkpoint(folder: Path) -> Report:
    """Compare a checkpoint with its manifest."""
    # The folder's name must be the step, which `.` is not.
    report, folder = Report("checkpoint"), normalize_path(folder)
    found = report.attempt(verify_numbers, folder)
    if found is not None:
        report.remarks.append(f"step {found.step}: {', '.join(found.files)}")
        if folder.parent.name == CHECKPOINTS:
            report.attempt(check_run_files, folder.parent.parent, found)
    return report
