"""How many cores there are to compute on."""

import os


def available_cores() -> int:
    """The cores that this process may use: fewer than the machine has where a job scheduler or `taskset` says so."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
