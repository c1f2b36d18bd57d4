"""Claims about damaged files: every one of many is refused with its name, or read as what was written."""

import os
import subprocess
import sys
from pathlib import Path

from patience import HANGS

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "mutate.py"


def test_hundreds_of_damaged_files_of_every_kind_are_dealt_with(tmp_path: Path):
    command = [sys.executable, str(PROGRAM), "--mutants", "200", "--seed", "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0 and "\n0 of 3200 were not dealt with" in done.stdout, done.stdout + done.stderr
