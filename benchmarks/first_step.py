"""Run a training command of zoo, and print the seconds from the end of its imports to its first step.

python benchmarks/first_step.py pretrain gpt-nano TASK -o RUN
"""

import sys
import time
from typing import Any

import zoo.cli.commands.train  # noqa: F401  # imported now, so that it does not count
from zoo.cli.main import main
from zoo.training import loop

BEGAN, TAKE = time.perf_counter(), loop.take_step


def first_step(*given: Any) -> None:
    """Print the time at the start of the first step, then take the step."""
    print(f"the first step begins {time.perf_counter() - BEGAN:.2f} s after the imports", flush=True)
    loop.take_step = TAKE
    TAKE(*given)


if __name__ == "__main__":
    loop.take_step = first_step
    main(sys.argv[1:])
