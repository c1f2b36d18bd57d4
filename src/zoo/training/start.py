"""How a run begins: check that the processes agree on what they train, and create or resume the run folder."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from zoo.devices.choose import device_name
from zoo.runs.environment import describe_environment
from zoo.runs.resume import differences
from zoo.runs.run import Run, RunFiles, create_run, join_run
from zoo.training.settings import MAY_CHANGE
from zoo.training.supervision.processes import Processes
from zoo.wording import first_few


def start_run(processes: Processes, folder: Path, files: RunFiles, resume: bool) -> Run:
    """Create or resume a run folder in the main process and join it in the others.

    Args:
        files: of the run; their `environment` is added to what this process finds out itself.

    Raises:
        ValueError: as `create_run`, in every process.
    """
    devices = [device_name(processes.device)] * processes.count
    environment = {**describe_environment(sys.argv, devices), **files.environment}
    run, refusal = None, None
    if processes.is_main:
        try:
            run = create_run(folder, replace(files, environment=environment), resume, MAY_CHANGE)
        except ValueError as error:
            refusal = error
    # all processes must fail together: the others would wait forever in the next collective
    (refused,) = processes.sum_numbers([float(refusal is not None)])
    if refused:
        raise refusal or ValueError(f"{folder}: the main process refused it")
    return run or join_run(folder)


def check_agreement(processes: Processes, facts: Mapping[str, Any]) -> None:
    """Refuse to train if the processes were started with different settings, data, weights or source code.

    Args:
        facts: what this process is about to train; dicts are compared key by key.

    Raises:
        ValueError: facts differ; the message names the first ones, and in which process.
    """
    everyone = processes.gather({**facts, "code": source_digest(), "torch": str(torch.__version__)})
    faults = [
        f"{key}: {first!r} in process 0, {other!r} in process {rank}"
        for rank, theirs in enumerate(everyone)
        for key, first, other in differences(everyone[0], theirs)
    ]
    if faults:
        raise ValueError(f"the processes do not agree: {first_few(faults, '; ')}")


@cache
def source_digest() -> str:
    """Return the SHA-256 of zoo's own source files at the first call."""
    folder = Path(__file__).parents[1]
    total = sha256()
    for path in sorted(folder.rglob("*.py")):
        total.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()
