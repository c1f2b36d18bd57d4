"""Processes on this machine that share work, each with one thread."""

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

from zoo.data.home import explain_write_error
from zoo.data.scratch import Scratch
from zoo.devices.cores import available_cores

THREADS = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
MOST = 16  # processes on one machine
LARGE = 1 << 25  # bytes of text from which on processes are started without being asked for


def processes_for(pieces: int) -> int:
    """The number of processes for some pieces of work: one per available core, at most one per piece."""
    return min(available_cores(), MOST, pieces)


def run_together(worker: str, request: Mapping[str, Any], count: int) -> None:
    """Run `python -m WORKER REQUEST NUMBER COUNT` in `count` processes and wait for all; each calls `end_with_caller`.

    Failures and output of the processes are ignored: the caller does what is left, and meets the same errors.

    Args:
        request: plain JSON values, which a process reads from a file.
    """
    pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
    with Scratch() as scratch, ExitStack() as stack:
        asked = scratch.folder / "request.json"
        with explain_write_error(asked):
            asked.write_text(json.dumps(request), "utf-8")
        commands = [[sys.executable, "-m", worker, str(asked), str(n), str(count)] for n in range(count)]
        # the same import path as here: `-m` alone would put the working directory first
        path = os.pathsep.join(map(os.path.abspath, sys.path))
        environment = {**os.environ, **THREADS, "PYTHONSAFEPATH": "1", "PYTHONPATH": path}
        # the other end of stdin closes when this process dies, however it dies: see `wait_for_caller`
        start = partial(subprocess.Popen, env=environment, stdin=pipe, stdout=quiet, stderr=quiet)
        running = [stack.enter_context(start(command)) for command in commands]  # on exit, waits for each process
        try:
            for process in running:
                process.wait()
        finally:
            for process in running:
                process.terminate()


def end_with_caller() -> None:
    """Exit as on an error at SIGTERM and when the calling process ends, so that nothing half-written is left."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    threading.Thread(target=wait_for_caller, daemon=True).start()


def wait_for_caller() -> None:
    """End this process when its standard input is closed, which happens even if the calling process is killed."""
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)
