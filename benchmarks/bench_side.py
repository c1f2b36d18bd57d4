"""One side of a comparison, as benchmarks/bench.py starts it: `bench_side.py MODULE.FUNCTION ARGS --turns SOCKET`.

With --keep, glibc keeps freed memory of large tensors for reuse, as zoo's training sets it. The setting belongs to a
process, so each side can have its own.
"""

import argparse
import ctypes
import importlib
import signal

from rows.cpu_profile import ProfilingReporter
from rows.side_args import SideArgs
from rows.side_process import TurnReporter
from zoo.devices.memory import keep_large_blocks

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("function", help="such as gpt.zoo: a function of a module of benchmarks/rows/")
    parser.add_argument("args", type=SideArgs.from_json, help="sizes and folders, as JSON")
    parser.add_argument("--turns", metavar="SOCKET", help="of the program that gives the turns; none: work without end")
    parser.add_argument("--keep", action="store_true", help="keep large blocks")
    parser.add_argument("--profile", action="store_true", help="print where the time of a few units goes, and end")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # die with bench.py, even while stopped
    if options.keep:
        keep_large_blocks()
    module, name = options.function.split(".")
    run_side = getattr(importlib.import_module(f"rows.{module}"), name)
    args = options.args
    run_side(ProfilingReporter() if options.profile else TurnReporter(options.turns, args.steps_per_turn), args)


if __name__ == "__main__":
    main()
