"""`python -m zoo` and the `zoo` command are the same."""

import atexit
import gc
import os
import sys

from zoo.cli.main import main


def end() -> None:
    """Leave all objects to the system: Python's end would look at each of torch's again, for two seconds."""
    gc.freeze()
    kernels = sys.modules.get("triton._C.libtriton")
    if kernels is not None and type(kernels.ir.builder).__module__ == "nanobind":  # from triton 3.9 on
        # nanobind has the last word, after Python has ended, and calls what was frozen leaks: 80 lines of them
        if sys.stderr is not None:
            sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


atexit.register(end)

if __name__ == "__main__":
    main()
