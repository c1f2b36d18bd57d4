"""Processes of this machine that share some work, each with one thread."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from zoo.data.home import name_file
from zoo.data.scratch import Scratch
from zoo.devices.cores import available_cores

THREADS = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
MOST = 16  # processes of one machine
LARGE = 1 << 25  # bytes of texts that are worth starting processes for, where nobody asked for them


def processes_for(pieces: int) -> int:
    """How many processes share some pieces of work: one for each core they may use, if there are as many pieces."""
    return min(available_cores(), MOST, pieces)


def run_together(worker: str, request: Mapping[str, Any], count: int) -> None:
    """Run `python -m WORKER REQUEST NUMBER COUNT` in several processes, and wait for all; each calls `end_with_caller`.

    What one of them could not do is left out, and what it says is not shown: whoever asked does the rest, and meets the
    same mistake.

    Args:
        request: plain values, which a process reads from a file.
    """
    pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
    with Scratch() as scratch, ExitStack() as stack:
        asked = scratch.folder / "request.json"
        with name_file(asked):
            asked.write_text(json.dumps(request), "utf-8")
        commands = [[sys.executable, "-m", worker, str(asked), str(n), str(count)] for n in range(count)]
        # what they import is what this process would: `-m` alone looks into the working directory first
        path = os.pathsep.join(map(os.path.abspath, sys.path))
        environment = {**os.environ, **THREADS, "PYTHONSAFEPATH": "1", "PYTHONPATH": path}
        start = partial(subprocess.Popen, env=environment, stdin=pipe, stdout=quiet, stderr=quiet)
        running = [stack.enter_context(start(command)) for command in commands]  # waits for those it ends, too
        try:
            for process in running:
                process.wait()
        finally:
            for process in running:
                process.terminate()


def end_with_caller() -> None:
    """Let SIGTERM, and the end of whoever started this process, end it as an error would: nothing half made is left."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    threading.Thread(target=wait_for_caller, daemon=True).start()


def wait_for_caller() -> None:
    """End this process when nobody holds the other end of its input any more: even a killed caller lets go of it."""
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)
