"""Make the n-th file call of some work fail: in a traced child process, so that Rust's calls are met, too."""

import ctypes
import errno
import os
import platform
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

TRACEME, GETREGS, SETREGS, SYSCALL, SETOPTIONS = 0, 12, 13, 24, 0x4200
KILL_WITH_PARENT, MARK_CALLS = 0x100000, 1
MARKED = signal.SIGTRAP | 0x80
NAMES = "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs gs ds es f g"
WRITES = {1: "write", 18: "pwrite64", 20: "writev"}
CHANGES = {  # of x86_64 Linux: what changes a file or a folder; an open may
    **WRITES,
    **{2: "open", 74: "fsync", 75: "fdatasync", 76: "truncate", 77: "ftruncate", 82: "rename", 83: "mkdir"},
    **{84: "rmdir", 86: "link", 87: "unlink", 91: "fchmod", 257: "openat", 258: "mkdirat", 263: "unlinkat"},
    **{264: "renameat", 265: "linkat", 285: "fallocate", 316: "renameat2", 326: "copy_file_range"},
}
CALLS = {**CHANGES, 0: "read", 3: "close", 17: "pread64", 217: "getdents64"}
OPENS = {2: "rsi", 257: "rdx"}  # where the flags are
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}
TRACED = sys.platform == "linux" and platform.machine() == "x86_64"


class Registers(ctypes.Structure):
    """user_regs_struct of x86_64."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in NAMES.split()]


class Outcome(NamedTuple):
    """How the work ended.

    Args:
        call: what failed; None: there were fewer calls.
        status: of the child: 0 done, 1 it reported a ValueError, RuntimeError or OSError, 2 anything else, negative:
            a signal.
    """

    call: str | None
    status: int


class Child:
    """A traced process, stopped where its work begins."""

    def __init__(self, prepare: Callable[[], Callable[[], None]]) -> None:
        self.library = ctypes.CDLL(None, use_errno=True)
        self.library.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.library.ptrace.restype = ctypes.c_long
        self.process = os.fork()
        if self.process == 0:
            self.run(prepare)
        _, self.status = os.waitpid(self.process, 0)
        self.inside = False  # a system call
        if not self.over:
            self.ask(SETOPTIONS, KILL_WITH_PARENT | MARK_CALLS)

    def run(self, prepare: Callable[[], Callable[[], None]]) -> None:
        """The child's side."""
        try:
            work = prepare()
            self.ask(TRACEME, process=0)
            os.kill(os.getpid(), signal.SIGSTOP)
            work()
            os._exit(0)
        except (ValueError, RuntimeError, OSError):
            os._exit(1)
        except BaseException:
            with suppress(OSError):  # where all writes fail, this one does: the child must end here nonetheless
                traceback.print_exc()
            os._exit(2)

    def ask(self, request: int, data: int = 0, process: int | None = None) -> None:
        target = self.process if process is None else process
        if self.library.ptrace(request, target, None, data or None) < 0:
            raise OSError(ctypes.get_errno(), f"ptrace: {os.strerror(ctypes.get_errno())}")

    def registers(self) -> Registers:
        found = Registers()
        if self.library.ptrace(GETREGS, self.process, None, ctypes.byref(found)) < 0:
            raise OSError(ctypes.get_errno(), "ptrace: no registers")
        return found

    def set(self, registers: Registers) -> None:
        self.library.ptrace(SETREGS, self.process, None, ctypes.byref(registers))

    def step(self) -> bool:
        """Go on to the next border of a system call; False: the process has ended."""
        passed = 0
        while not self.over:
            self.ask(SYSCALL, passed)
            _, self.status = os.waitpid(self.process, 0)
            if not os.WIFSTOPPED(self.status):
                break
            passed = os.WSTOPSIG(self.status)
            if passed == MARKED:
                self.inside = not self.inside
                return True
        return False

    @property
    def over(self) -> bool:
        return not os.WIFSTOPPED(self.status)

    def calls(self) -> Iterator[Registers]:
        """The registers at each file call, before the kernel begins it."""
        while self.step():
            found = self.registers()
            if found.orig_rax in CALLS:
                yield found
            if self.inside:  # unless whoever was given the call has finished it
                self.step()

    def fail(self, found: Registers, number: int) -> None:
        """Let the call do nothing and return an error."""
        found.orig_rax = 2**64 - 1
        self.set(found)
        self.step()
        found = self.registers()
        found.rax = 2**64 - number
        self.set(found)

    def end(self) -> int:
        """Let the process go on; its exit status."""
        while self.step():
            continue
        return os.waitstatus_to_exitcode(self.status)


def counts(found: Registers, fault: str) -> bool:
    """Whether a fault is tried at a call: EIO at each, a kill or ENOSPC where something changes, short at a write."""
    call = found.orig_rax
    if fault == "EIO":
        return True
    if fault == "short":
        return call in WRITES
    return call in CHANGES and (call not in OPENS or bool(getattr(found, OPENS[call]) & os.O_CREAT))


def inject(prepare: Callable[[], Callable[[], None]], fault: str, number: int) -> Outcome:
    """Do some work in a child process and make its n-th file call fail.

    Args:
        prepare: called in the child; gives the work, from which calls are counted.
        fault: kill, EIO, ENOSPC, or short: half of a write is done, and the disk is full from then on.
    """
    child = Child(prepare)
    calls = child.calls()
    found = next(islice((found for found in calls if counts(found, fault)), number - 1, None), None)
    if found is None:
        return Outcome(None, child.end())
    name = CALLS[found.orig_rax]
    if fault == "kill":
        os.kill(child.process, signal.SIGKILL)
        _, child.status = os.waitpid(child.process, 0)
    elif fault in ERRORS:
        child.fail(found, ERRORS[fault])
    else:
        found.rdx //= 2
        child.set(found)
        for found in calls:
            if found.orig_rax in WRITES:
                child.fail(found, errno.ENOSPC)
    return Outcome(name, child.end())
