"""Whether a run is whole: every file of it read, every checkpoint compared with its manifest."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from zoo.config import read_yaml
from zoo.runs.checkpoint import steps, verify
from zoo.runs.files import ASIDE, read_json
from zoo.runs.layout import CHECKPOINTS, CONFIG, ENVIRONMENT, METRICS, TASK, TRAINING
from zoo.runs.metrics import Mark, read_metrics
from zoo.runs.saved import check_run_files

R = TypeVar("R")


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


def check_run(folder: Path) -> Report:
    """Read all of a run but its tensors' meaning."""
    report = Report("run")
    for name in (CONFIG, TASK, TRAINING):
        report.attempt(read_yaml, folder / name)
    report.attempt(read_json, folder / ENVIRONMENT)
    there = steps(folder / CHECKPOINTS)
    checked = [report.attempt(verify, folder / CHECKPOINTS / str(step)) for step in there]
    whole = [checkpoint for checkpoint in checked if checkpoint is not None]
    if whole:
        report.attempt(check_run_files, folder, whole[0])
    check_metrics(report, folder, whole[0].mark if whole else Mark())
    report.remarks.append(f"whole checkpoints: {', '.join(str(c.step) for c in reversed(whole)) or 'none'}")
    best = whole[0].state.get("best") if whole else None
    if best:
        report.remarks.append(f"best: checkpoint {best['step']}, {best['metric']} {best['value']:.6g}")
        if best["step"] not in there:
            report.faults.append(f"{folder / CHECKPOINTS / str(best['step'])}: no such folder, but it is the best one")
    strays = sorted([*folder.glob(f"**/{ASIDE}*"), *folder.glob(f"{CHECKPOINTS}/*.broken")])
    report.remarks += [
        f"{path}: left by an interrupted save, or broken and set aside; safe to delete" for path in strays
    ]
    return report


def check_metrics(report: Report, folder: Path, mark: Mark) -> None:
    """Read metrics.jsonl: as it was at the newest checkpoint, and one line for each step."""
    lines = report.attempt(read_metrics, folder / METRICS, mark)
    found = [line.get("step") for line in lines or []]
    wrong = next((i for i, step in enumerate(found, 1) if step != i), None)
    if wrong is not None:
        report.faults.append(f"{folder / METRICS}: line {wrong} is of step {found[wrong - 1]}")
    report.remarks.append(f"{len(found)} steps are logged")


def check_checkpoint(folder: Path) -> Report:
    """Compare a checkpoint with its manifest."""
    report = Report("checkpoint")
    found = report.attempt(verify, folder)
    if found is not None:
        report.remarks.append(f"step {found.step}: {', '.join(found.files)}")
        if folder.absolute().parent.name == CHECKPOINTS:
            report.attempt(check_run_files, folder.absolute().parent.parent, found)
    return report
