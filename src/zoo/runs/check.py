"""Whether a run is whole: every file of it read, every checkpoint compared with its manifest."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from zoo.config import read_yaml
from zoo.runs.checkpoint import Checkpoint, steps, verify
from zoo.runs.environment import read_environment
from zoo.runs.files import ASIDE, REPLACED, digest, read_json
from zoo.runs.layout import CHECKPOINTS, CONFIG, DATA, ENVIRONMENT, METRICS, REQUEST, TASK, TOKENIZER, TRAINING
from zoo.runs.metrics import Mark, read_metrics
from zoo.runs.saved import check_run_file, check_run_files
from zoo.runs.tensors import finite

R = TypeVar("R")
NEEDED = "without it the run can be neither used nor continued"
COSTS = {  # what is lost with a file that no checkpoint depends on
    TRAINING: "no weights are lost, each checkpoint has its own; --resume writes it anew",
    ENVIRONMENT: "no weights are lost; --resume writes it anew; zoo export wants it whole or gone",
    REQUEST: "no weights are lost; --resume needs it, for the changes that the run was started with",
    METRICS: "no weights are lost; zoo export wants it whole; all else does without",
}


@dataclass
class Report:
    """What was found at a path.

    Args:
        kind: run, checkpoint, model, task, training, exported model.
        faults: what is wrong; nothing where it is whole.
        remarks: what is worth knowing, and wrong with nothing.
    """

    kind: str
    faults: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def attempt(self, work: Callable[..., R], *given: Any) -> R | None:
        """Do what may find a fault; None where it did."""
        try:
            return work(*given)
        except ValueError as fault:
            self.faults.append(str(fault))
            return None


def verify_numbers(folder: Path) -> Checkpoint:
    """A checkpoint whose files are what was written, and whose tensors are numbers.

    Raises:
        ValueError: they are not; the message names the file, or the tensor.
    """
    found = verify(folder)
    for kind in found.kinds:
        finite(found.tensors(kind), f"{folder}: {kind}")
    return found


def check_run(folder: Path) -> Report:
    """Read every file of a run, but its tensors' meaning, and say what is lost with each that is not whole."""
    report = Report("run")
    there = steps(folder / CHECKPOINTS)
    checked = {step: report.attempt(verify_numbers, folder / CHECKPOINTS / str(step)) for step in there}
    whole = [checkpoint for checkpoint in checked.values() if checkpoint is not None]
    newest = whole[0] if whole else None
    check_settings(report, folder, newest)
    check_metrics(report, folder, newest.mark if newest else Mark())
    report.remarks.append(f"whole checkpoints: {', '.join(str(c.step) for c in reversed(whole)) or 'none'}")
    if newest is None and there:
        report.faults.append(f"{folder / CHECKPOINTS}: none is whole: the run can be neither used nor continued")
    elif newest is not None and newest.step != there[0]:
        report.remarks.append(f"--resume continues from checkpoint {newest.step}, the newest that is whole")
    check_best(report, folder, newest)
    check_strays(report, folder)
    return report


def check_settings(report: Report, folder: Path, newest: Checkpoint | None) -> None:
    """Compare the files beside the checkpoints with what was written."""
    needed = dict.fromkeys([CONFIG, TASK, *(newest.run_files if newest else ())])
    whole = []
    for name in dict.fromkeys([*needed, TRAINING, ENVIRONMENT, *TOKENIZER, DATA, *recorded(folder)]):
        if name in (*TOKENIZER, DATA) and name not in needed and not (folder / name).exists():
            continue  # a model without text has no tokenizer
        try:
            check_setting(folder / name, newest)
            whole.append(name)
        except ValueError as fault:
            report.faults.append(f"{fault}: {COSTS.get(name, NEEDED)}")
    report.remarks.append(f"whole: {', '.join(whole) or 'none of its files'}")


def check_setting(path: Path, newest: Checkpoint | None) -> None:
    """Refuse a file that is not what the newest checkpoint, or else environment.json, knows of it."""
    if newest is not None and path.name in newest.run_files:
        check_run_file(path, newest)
    elif path.name == ENVIRONMENT:
        read_environment(path)
    elif path.suffix == ".yaml":
        read_yaml(path)
    else:
        read_json(path)
    if digest(path) != recorded(path.parent).get(path.name, digest(path)):
        raise ValueError(f"{path}: is not what was written (SHA-256 differs)")


def recorded(folder: Path) -> dict[str, str]:
    """The SHA-256 of files that no checkpoint depends on; nothing where that cannot be read."""
    try:
        return dict(read_environment(folder / ENVIRONMENT).get("files", {}))
    except ValueError:
        return {}


def check_best(report: Report, folder: Path, newest: Checkpoint | None) -> None:
    """Look for the checkpoint that the run means."""
    best = newest.state.get("best") if newest else None
    if best and newest:
        report.remarks.append(f"best: checkpoint {best['step']}, {best['metric']} {best['value']:.6g}")
        place = folder / CHECKPOINTS / str(best["step"])
        if not place.is_dir():
            lost = f"the run now means its last one, {newest.step}"
            report.faults.append(f"{place}: no such folder, but it is the best one: {lost}")


def check_strays(report: Report, folder: Path) -> None:
    """Say of what no run reads whether it may go: a checkpoint that was being replaced may be the only one."""
    for path in sorted([*folder.glob(f"**/{ASIDE}*"), *folder.glob(f"{CHECKPOINTS}/*.broken")]):
        step = path.name.removeprefix(REPLACED)
        if step != path.name and not (path.parent / step).exists():
            report.faults.append(
                f"{path}: is checkpoint {step}, being replaced when the run ended; --resume restores it"
            )
        else:
            report.remarks.append(f"{path}: left by an interrupted save, or broken and set aside; safe to delete")


def check_metrics(report: Report, folder: Path, mark: Mark) -> None:
    """Read metrics.jsonl: as it was at the newest checkpoint, and one line for each step."""
    try:
        lines = read_metrics(folder / METRICS, mark)
    except ValueError as fault:
        report.faults.append(f"{fault}: {COSTS[METRICS]}")
        return
    found = [line.get("step") for line in lines]
    wrong = next((i for i, step in enumerate(found, 1) if step != i), None)
    if wrong is not None:
        report.faults.append(f"{folder / METRICS}: line {wrong} is of step {found[wrong - 1]}")
    report.remarks.append(f"{len(found)} steps are logged")


def check_checkpoint(folder: Path) -> Report:
    """Compare a checkpoint with its manifest."""
    report = Report("checkpoint")
    found = report.attempt(verify_numbers, folder)
    if found is not None:
        report.remarks.append(f"step {found.step}: {', '.join(found.files)}")
        if folder.absolute().parent.name == CHECKPOINTS:
            report.attempt(check_run_files, folder.absolute().parent.parent, found)
    return report
