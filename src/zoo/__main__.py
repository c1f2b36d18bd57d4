"""`python -m zoo` and the `zoo` command are the same."""

import atexit
import gc
import os
import sys
from contextlib import suppress

from zoo.cli.main import main


def end() -> None:
    """Skip the final garbage collection, which takes two seconds with torch's objects; the system frees the memory."""
    gc.freeze()
    kernels = sys.modules.get("triton._C.libtriton")
    talks = kernels is not None and type(kernels.ir.builder).__module__ == "nanobind"  # from triton 3.9 on
    if talks and sys.stderr is not None:  # without stderr, descriptor 2 may be another file
        # after Python has ended, nanobind reports the frozen objects as leaks, in 80 lines on stderr: silence it
        with suppress(OSError, ValueError):  # its reader may be gone
            sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


atexit.register(end)

if __name__ == "__main__":
    main()
