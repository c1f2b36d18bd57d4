"""The number of available CPU cores."""

import os


def available_cores() -> int:
    """Number of cores that this process may use; a job scheduler or `taskset` may allow fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
