"""Claims about signals at random moments: the command that tries a hundred, run for three."""

import subprocess
import sys
from pathlib import Path

from patience import HANGS

COMMAND = Path(__file__).parents[2] / "benchmarks" / "signals.py"


def test_signals_at_random_moments_save_leave_with_their_status_and_resume_exactly():
    done = subprocess.run(
        [sys.executable, str(COMMAND), "--trials", "3", "--seed", "5"], capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 0 and "3 of 3 saved, left with their status" in done.stdout, done.stdout + done.stderr
