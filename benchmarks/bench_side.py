"""One side of a comparison, as benchmarks/bench.py starts it: `bench_side.py MODULE.FUNCTION GIVEN --turns SOCKET`.

With --keep, glibc keeps freed memory of large tensors for reuse, as zoo's training sets it. The setting belongs to a
process, so each side can have its own.
"""

import argparse
import ctypes
import importlib
import signal

from rows.given import Given
from rows.profiling import ProfiledTurn
from rows.turns import Turn
from zoo.devices.memory import keep_large_blocks

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", help="such as gpt.zoo: a function of a module of benchmarks/rows/")
    parser.add_argument("given", type=Given.parse, help="sizes and folders, as JSON")
    parser.add_argument("--turns", metavar="SOCKET", help="of the program that asks; none: work on and on")
    parser.add_argument("--keep", action="store_true", help="keep large blocks")
    parser.add_argument("--profile", action="store_true", help="print where the time of a few units goes, and end")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # die with bench.py, even while stopped
    if options.keep:
        keep_large_blocks()
    module, name = options.work.split(".")
    work = getattr(importlib.import_module(f"rows.{module}"), name)
    work(ProfiledTurn() if options.profile else Turn(options.turns, options.given.each), options.given)


if __name__ == "__main__":
    main()
