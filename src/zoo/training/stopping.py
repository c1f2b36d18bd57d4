"""Stopping on request: the first signal finishes the step and saves, the second of its kind stops at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(Exception):
    """Training was stopped by a signal, and its state is saved.

    Args:
        signal: which one.
    """

    def __init__(self, number: int, step: int) -> None:
        name = signal.Signals(number).name
        super().__init__(f"stopped by {name} after step {step}; the state is saved, --resume continues")
        self.signal = number

    @property
    def status(self) -> int:
        """The exit status that shells give: 130 for SIGINT, 143 for SIGTERM."""
        return 128 + self.signal


class Signals:
    """The signals that this process was sent; each kind is caught once."""

    def __init__(self) -> None:
        self.received: set[int] = set()

    def flags(self) -> list[float]:
        """One number for each kind, to be added up over the processes."""
        return [float(number in self.received) for number in SIGNALS]


def first_of(flags: list[float]) -> int | None:
    """The signal to obey when the flags of all processes are added up; None where there was none."""
    return next((int(number) for number, flag in zip(SIGNALS, flags, strict=True) if flag), None)


@contextmanager
def catch_signals() -> Iterator[Signals]:
    """Note SIGINT and SIGTERM instead of dying of them; only the main thread can."""
    signals = Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def note(number: int, frame: FrameType | None) -> None:
        signals.received.add(number)
        signal.signal(number, before[signal.Signals(number)])  # the next one of this kind stops at once

    for number in SIGNALS:
        signal.signal(number, note)
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
