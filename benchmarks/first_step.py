"""Run a training command of zoo, and print the seconds from the end of its imports to its first step.

python benchmarks/first_step.py pretrain gpt-nano TASK -o RUN
"""

import sys
import time
from typing import Any

import zoo.cli.commands.train  # noqa: F401  # imported now, so that it does not count
from zoo.cli.main import main
from zoo.training import loop

IMPORTED, ORIGINAL = time.perf_counter(), loop.take_step


def timed_step(*arguments: Any) -> None:
    """Print the time at the start of the first step, then take the step."""
    print(f"the first step begins {time.perf_counter() - IMPORTED:.2f} s after the imports", flush=True)
    loop.take_step = ORIGINAL
    ORIGINAL(*arguments)


if __name__ == "__main__":
    loop.take_step = timed_step
    main(sys.argv[1:])
