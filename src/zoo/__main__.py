"""`python -m zoo` and the `zoo` command are the same."""

import atexit
import gc
import os
import sys
from contextlib import suppress

from zoo.cli.main import main


def end() -> None:
    """Leave all objects to the system: Python's end would look at each of torch's again, for two seconds."""
    gc.freeze()
    kernels = sys.modules.get("triton._C.libtriton")
    talks = kernels is not None and type(kernels.ir.builder).__module__ == "nanobind"  # from triton 3.9 on
    if talks and sys.stderr is not None:  # without stderr its number may be another file's
        # nanobind has the last word, after Python has ended, and calls what was frozen leaks: 80 lines of them
        with suppress(OSError, ValueError):  # nobody may read it any more
            sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


atexit.register(end)

if __name__ == "__main__":
    main()
