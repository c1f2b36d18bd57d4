"""Run a command in two processes that train together, forked from this one: a launcher would import all three times.

python tests/cli/two_processes.py PORT pretrain …
"""

import os
import sys

import torch._dynamo  # optimizers import it late: here, for no forked process has to

import zoo.cli.commands.train
from zoo.cli.main import main

assert zoo.cli.commands.train and torch._dynamo


def run(rank: int, port: str, words: list[str]) -> int:
    """Begin the process of a rank, as a launcher does; its id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        shared = {
            "ACCELERATE_USE_CPU": "true",
            "WORLD_SIZE": "2",
            "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        os.environ |= {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        main(words)
        status = 0
    except SystemExit as left:
        status = int(left.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    children = [run(rank, sys.argv[1], sys.argv[2:]) for rank in range(2)]
    sys.exit(max(abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) for child in children))
