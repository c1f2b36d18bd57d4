"""Claims about signals at random moments: the command that tries many of them."""

import subprocess
import sys
from pathlib import Path

import pytest

from patience import HANGS

COMMAND = Path(__file__).parents[2] / "benchmarks" / "signals.py"


@pytest.mark.long
def test_signals_at_random_moments_save_leave_with_their_status_and_resume_exactly():
    command = [sys.executable, str(COMMAND), "--trials", "60", "--seed", "8"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
    said = "60 of 60 saved, left with their status"
    assert done.returncode == 0 and said in done.stdout, done.stdout + done.stderr
