"""Claims about saving: whatever fails at whichever file call, the run can be resumed from a whole checkpoint."""

import subprocess
import sys
from pathlib import Path

import pytest

from patience import HANGS

PROGRAM = Path(__file__).with_name("fault_sweep.py")
UNTRACED = 77
CASES = [("resumed", fault) for fault in ("kill", "EIO", "ENOSPC", "short")] + [("anew", "kill"), ("anew", "short")]
CASES += [("again", "kill"), ("again", "EIO")]


@pytest.mark.parametrize(("begin", "fault"), CASES)
def test_whatever_fails_while_saving_a_whole_checkpoint_is_left(tmp_path: Path, begin: str, fault: str):
    # A process of its own: this one has threads, and a fork of it may wait for a lock that one of them held.
    done = subprocess.run(
        [sys.executable, PROGRAM, begin, fault, tmp_path], capture_output=True, text=True, timeout=HANGS, check=False
    )
    if done.returncode == UNTRACED:
        pytest.skip("tracing system calls needs x86_64 Linux that allows ptrace")
    assert done.returncode == 0, done.stderr
