"""Make every file call of a save fail, one after the other, in a process that has started no threads before it forks.

    python tests/runs/fault_sweep.py FOLDER

Prints, as JSON, what went wrong for each way to begin and each fault: nothing where a whole checkpoint was left each
time. Exit status 77: child processes cannot be traced here.
"""

import json
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import torch
from faults import TRACED, Child, inject

from zoo.runs.checkpoint import latest
from zoo.runs.files import TEMPORARY_PREFIX, restore_replaced
from zoo.runs.run import Run, RunFiles, create_run
from zoo.runs.saved import open_run

UNTRACED = 77
CASES = [("resumed", fault) for fault in ("kill", "EIO", "ENOSPC", "short")] + [("anew", "kill"), ("anew", "short")]
CASES += [("again", "kill"), ("again", "EIO")]
FILES = RunFiles({"d_model": 8}, {"objective": "causal_lm"}, {"steps": 5}, {"tokenizer.json": b"{}"}, {"threads": 1})


def allowed() -> bool:
    """Whether a child of this process can be traced here."""
    try:
        return TRACED and Child(lambda: lambda: None).end() == 0
    except OSError:
        return False


def save(run: Run, step: int) -> None:
    run.log({"step": step, "loss": 1 / step})
    tensors = {"weights": {"w": torch.full((5,), float(step))}, "optimizer": {"m": torch.full((7,), float(step))}}
    run.save(step, tensors, {"step": step})
    run.prune(2, None)


def broken(folder: Path) -> Path:
    """A run whose newest checkpoint, the third, was damaged; the first is deleted."""
    with create_run(folder, FILES) as run:
        for step in (1, 2, 3):
            save(run, step)
    (folder / "checkpoints" / "3" / "weights.safetensors").write_bytes(b"")
    return folder


def go_on(folder: Path) -> None:
    """Resume after the second step, and do a third one."""
    with create_run(folder, FILES, resume=True) as run:
        save(run, 3)


def resumed(folder: Path) -> Callable[[], None]:
    """The run is resumed, then the work begins: one step, saved, an older checkpoint deleted."""
    return partial(save, create_run(folder, FILES, resume=True), 3)


def anew(folder: Path) -> Callable[[], None]:
    """All is the work, resuming too."""
    return partial(go_on, folder)


def again(folder: Path) -> Callable[[], None]:
    """The last checkpoint is saved once more: a step whose validation was interrupted has now been validated."""
    shutil.rmtree(folder / "checkpoints" / "3")
    run = create_run(folder, FILES, resume=True)
    assert run.checkpoint is not None
    tensors = {kind: run.checkpoint.tensors(kind) for kind in run.checkpoint.kinds}
    return lambda: run.save(2, tensors, {"step": 2})


def check_whole(folder: Path, goal: int) -> None:
    """The newest whole checkpoint is one that was finished, and the run goes on from it to what it would have been.

    Args:
        goal: the step that must have been saved; 0: any.
    """
    restore_replaced(folder / "checkpoints")  # as resuming does first
    newest = latest(folder / "checkpoints")
    assert newest is not None and newest.step == newest.state["step"] and (not goal or newest.step == goal)
    assert all(tensor.eq(newest.step).all() for kind in newest.kinds for tensor in newest.tensors(kind).values())
    with create_run(folder, FILES, resume=True) as run:
        assert run.checkpoint is not None and run.checkpoint.step == newest.step
        save(run, newest.step + 1)
    assert not list(folder.rglob(f"{TEMPORARY_PREFIX}*"))
    assert [line["step"] for line in open_run(folder).metrics] == list(range(1, newest.step + 2))


def sweep(prepare: Callable[[Path], Callable[[], None]], fault: str, folder: Path, goal: int) -> Counter[str]:
    """Let each file call fail in a copy of a run; how often each was met."""
    found: Counter[str] = Counter()
    start = broken(folder / "broken")
    for number in count(1):
        copy = folder / str(number)
        shutil.copytree(start, copy)
        call, status = inject(partial(prepare, copy), fault, number)
        if call is None:
            return found
        found[call] += 1
        expected = (-signal.SIGKILL,) if fault == "kill" else (0, 1)
        assert status in expected, f"{fault} at call {number}, {call}: status {status}"
        check_whole(copy, goal if status == 0 else 0)
        shutil.rmtree(copy)
    raise AssertionError("there is no end of numbers")


def judge(name: str, fault: str, folder: Path) -> str:
    """What went wrong when every call failed once; '' where nothing did."""
    prepare, goal = {"resumed": (resumed, 3), "anew": (anew, 3), "again": (again, 2)}[name]
    try:
        found = sweep(prepare, fault, folder, goal)
    except Exception:
        return traceback.format_exc()
    renames = found["rename"] + found["renameat"]
    enough = found["write"] >= 5 and (fault == "short" or found["fsync"] >= 6 and renames >= 2)
    return "" if enough else f"these are not all the calls of a save: {dict(found)}"


def main(folder: Path) -> None:
    if not allowed():
        sys.exit(UNTRACED)
    print(json.dumps({f"{name} {fault}": judge(name, fault, folder / name / fault) for name, fault in CASES}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
