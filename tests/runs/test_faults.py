"""Claims about saving: whatever fails at whichever file call, the run can be resumed from a whole checkpoint."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from fault_sweep import CASES, UNTRACED

from once import once
from patience import HANGS

PROGRAM = Path(__file__).with_name("fault_sweep.py")
MEMORY = "/dev/shm"  # where nothing waits for a disk; the calls are the same


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What went wrong in each case."""

    def sweep(folder: Path) -> None:
        with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else folder) as place:
            # A process of its own: this one has threads, and a fork of it may wait for a lock that one of them held.
            command = [sys.executable, PROGRAM, place]
            done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)
        assert done.returncode in (0, UNTRACED), done.stderr
        (folder / "found.json").write_text(done.stdout or "{}")

    found: dict[str, str] = json.loads((once(tmp_path_factory, "faults", sweep) / "found.json").read_text())
    return found


@pytest.mark.parametrize(("begin", "fault"), CASES)
def test_whatever_fails_while_saving_a_whole_checkpoint_is_left(wrong: dict[str, str], begin: str, fault: str):
    if not wrong:
        pytest.skip("tracing system calls needs x86_64 Linux that allows ptrace")
    assert not wrong[f"{begin} {fault}"], wrong[f"{begin} {fault}"]
