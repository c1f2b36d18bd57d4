"""Stopping on request: the first signal finishes the step and saves, a second one stops at once."""

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
FORWARDED = 2.0  # seconds in which a launcher may hand on a signal that the process got itself
AT_ONCE = 2.0  # seconds in which a process that was told to stop at once does so in its own way


class Stopped(Exception):
    """Training was stopped by a signal.

    Args:
        number: which one.
        step: after which the state was saved; None: it was not.
    """

    def __init__(self, number: int, step: int | None = None) -> None:
        name = signal.Signals(number).name
        saved = f"after step {step}; the state is saved" if step is not None else "at once; what was saved stands"
        super().__init__(f"stopped by {name} {saved}, --resume continues")
        self.signal, self.step = number, step

    @property
    def status(self) -> int:
        """The exit status that shells give: 130 for SIGINT, 143 for SIGTERM."""
        return 128 + self.signal


class Signals:
    """The signals that this process was sent.

    Args:
        launched: whether a launcher started it, which may send once more what the process was sent already.
    """

    def __init__(self, launched: bool = False) -> None:
        self.received: dict[int, float] = {}
        self.launched = launched

    def note(self, number: int) -> bool:
        """Take in a signal; whether it is a second one."""
        now = time.monotonic()
        handed_on = self.launched and now - self.received.get(number, -FORWARDED) < FORWARDED
        second = bool(self.received) and not handed_on
        self.received.setdefault(number, now)
        return second

    def flags(self) -> list[float]:
        """One number for each kind, to be added up over the processes."""
        return [float(number in self.received) for number in SIGNALS]


def first_of(flags: list[float]) -> int | None:
    """The signal to obey when the flags of all processes are added up; None where there was none."""
    return next((int(number) for number, flag in zip(SIGNALS, flags, strict=True) if flag), None)


@contextmanager
def catch_signals() -> Iterator[Signals]:
    """Note SIGINT and SIGTERM instead of dying of them; only the main thread can.

    Raises:
        Stopped: on a second signal.
    """
    signals = Signals(launched())
    if not in_main_thread():
        yield signals
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def note(number: int, frame: FrameType | None) -> None:
        if signals.note(number):
            raise Stopped(number)

    with stop_by_force():
        for number in SIGNALS:
            signal.signal(number, note)
        try:
            yield signals
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def stop_by_force() -> Iterator[None]:
    """End the process after a second signal even where its main thread is stuck and runs no handler."""
    woken, waker = socket.socketpair()
    waker.setblocking(False)
    before = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=await_second, args=(woken, Signals(launched())), daemon=True, name="zoo-signals")
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        waker.close()
        thread.join()
        woken.close()


def await_second(woken: socket.socket, signals: Signals) -> None:
    """Read the numbers of signals as they come, until the other end is closed."""
    while number := woken.recv(1):
        if number[0] in SIGNALS and signals.note(number[0]):
            ready, _, _ = select.select([woken], [], [], AT_ONCE)
            if not ready or woken.recv(1):
                os._exit(128 + number[0])


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """Let SIGTERM stop what comes before the first step as SIGINT does; only the main thread can.

    Raises:
        Stopped: the signal came.
    """
    if not in_main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def launched() -> bool:
    """Whether torchrun, or `accelerate launch`, started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ
