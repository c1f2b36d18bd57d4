"""Processes of this machine that share some work, each with one thread."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.data.home import name_file

THREADS = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
MOST = 16  # processes of one machine
LARGE = 1 << 25  # bytes of texts that are worth starting processes for, where nobody asked for them


def processes_for(pieces: int) -> int:
    """How many processes share some pieces of work: one for each core, if there are as many pieces."""
    return min(os.cpu_count() or 1, MOST, pieces)


def run_together(worker: str, request: Mapping[str, Any], count: int) -> None:
    """Run `python -m WORKER REQUEST NUMBER COUNT` in several processes, and wait for all.

    What one of them could not do is left out, and what it says is not shown: whoever asked does the rest, and meets the
    same mistake.

    Args:
        request: plain values, which a process reads from a file.
    """
    quiet = subprocess.DEVNULL
    with tempfile.TemporaryDirectory(prefix="zoo-request-") as folder:
        asked = Path(folder) / "request.json"
        with name_file(asked):
            asked.write_text(json.dumps(request), "utf-8")
        commands = [[sys.executable, "-m", worker, str(asked), str(n), str(count)] for n in range(count)]
        environment = {**os.environ, **THREADS}
        running = [subprocess.Popen(each, env=environment, stdout=quiet, stderr=quiet) for each in commands]
        try:
            for process in running:
                process.wait()
        finally:
            for process in running:
                process.terminate()
