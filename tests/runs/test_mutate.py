"""Claims about damaged files: every one of many is refused with its name, or read as what was written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from patience import HANGS

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "mutate.py"


@pytest.mark.long
def test_hundreds_of_damaged_files_of_every_kind_are_dealt_with(tmp_path: Path, mutants: int = 1000):
    command = [sys.executable, str(PROGRAM), "--mutants", str(mutants), "--seed", "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0 and f"\n0 of {16 * mutants} were not dealt with" in done.stdout, (
        done.stdout + done.stderr
    )
