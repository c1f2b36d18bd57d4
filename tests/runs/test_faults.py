"""Claims about saving: whatever fails at whichever file call, the run can be resumed from a whole checkpoint."""

import shutil
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest
import torch
from faults import TRACED, Child, inject

from zoo.runs.checkpoint import latest
from zoo.runs.files import ASIDE
from zoo.runs.run import Run, RunFiles, create_run
from zoo.runs.saved import open_run

FILES = RunFiles({"d_model": 8}, {"objective": "causal_lm"}, {"steps": 5}, {"tokenizer.json": b"{}"}, {"threads": 1})


def allowed() -> bool:
    """Whether a child of this process can be traced here."""
    try:
        return TRACED and Child(lambda: lambda: None).end() == 0
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not allowed(), reason="tracing system calls needs x86_64 Linux that allows ptrace")


def save(run: Run, step: int) -> None:
    run.log({"step": step, "loss": 1 / step})
    tensors = {"weights": {"w": torch.full((5,), float(step))}, "optimizer": {"m": torch.full((7,), float(step))}}
    run.save(step, tensors, {"step": step})
    run.prune(2, None)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose newest checkpoint, the third, was damaged; the first is deleted."""
    folder = tmp_path_factory.mktemp("broken") / "run"
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


CASES = [(resumed, "kill"), (resumed, "EIO"), (resumed, "ENOSPC"), (resumed, "short"), (anew, "kill"), (anew, "short")]


@pytest.mark.parametrize(("prepare", "fault"), CASES)
def test_whatever_fails_while_saving_a_whole_checkpoint_is_left(
    broken: Path, tmp_path: Path, prepare: Callable[[Path], Callable[[], None]], fault: str
):
    found = Counter()
    for number in count(1):
        folder = tmp_path / str(number)
        shutil.copytree(broken, folder)
        call, status = inject(partial(prepare, folder), fault, number)
        if call is None:
            break
        found[call] += 1
        assert status in ((-signal.SIGKILL,) if fault == "kill" else (0, 1)), f"{fault} at call {number}, {call}"
        check_whole(folder, done=status == 0)
    assert found["write"] >= 6 and (
        fault == "short" or found["fsync"] >= 6 and found["rename"] + found["renameat"] >= 3
    )


def check_whole(folder: Path, done: bool) -> None:
    """The newest whole checkpoint is one that was finished, and the run goes on from it to what it would have been."""
    newest = latest(folder / "checkpoints")
    assert newest is not None and newest.step == newest.state["step"] and (newest.step == 3 or not done)
    assert all(tensor.eq(newest.step).all() for kind in newest.kinds for tensor in newest.tensors(kind).values())
    with create_run(folder, FILES, resume=True) as run:
        assert run.checkpoint is not None and run.checkpoint.step == newest.step
        save(run, newest.step + 1)
    assert not list(folder.rglob(f"{ASIDE}*"))
    assert [line["step"] for line in open_run(folder).metrics] == list(range(1, newest.step + 2))
