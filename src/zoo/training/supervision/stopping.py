"""Stop on signals: at once if there is nothing to save, else after the step is saved; a second signal forces it."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FORWARD_WINDOW = 2.0  # seconds in which a launcher, or a shell whose terminal is gone, may forward a signal again
FORCE_AFTER = 2.0  # seconds that a process has to end by itself when it must stop at once
SECOND_SIGNAL = "at once; --resume continues from what was saved"

pending_signals: list[int] = []  # the signal that is stopping this process, if any


class Stopped(BaseException):
    """Raised when a signal ends the work.

    A BaseException, because libraries catch every Exception, for example around an optional import. A bare `except:`
    catches it nevertheless; then `raise_if_stopped` raises it again.

    Args:
        number: of the signal.
        where: how far the work is, for the message.
        saved: whether the state was saved.
    """

    def __init__(self, number: int, where: str = "", saved: bool = False) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name} {where}".strip())
        self.signal, self.saved = number, saved

    @property
    def status(self) -> int:
        """The exit status by the shell's convention: 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP."""
        return 128 + self.signal


class Interrupted(Exception):
    """Raised in all processes to end a validation early, because one of them received a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.signal = number


class Signals:
    """The signals that this process received.

    Args:
        launched: whether a launcher started it, which forwards signals that the process has received already.
    """

    def __init__(self, launched: bool = False) -> None:
        self.received: dict[int, float] = {}
        self.launched, self.count = launched, 0

    def note(self, number: int) -> bool:
        """Count a signal, unless a launcher or a shell has forwarded it again; return whether it was counted."""
        now, may_repeat = time.monotonic(), self.launched or number == signal.SIGHUP
        new = not may_repeat or now - self.received.get(number, -FORWARD_WINDOW) >= FORWARD_WINDOW
        self.count += new
        self.received.setdefault(number, now)
        return new

    def flags(self) -> list[float]:
        """Return one number per kind of signal, to be summed over the processes."""
        return [float(number in self.received) for number in SIGNALS]


def first_of(flags: list[float]) -> int | None:
    """Return the signal to obey, from flags summed over all processes; None: there was none."""
    return next((int(number) for number, flag in zip(SIGNALS, flags, strict=True) if flag), None)


@contextmanager
def stop_at_once() -> Iterator[None]:
    """End the work at the first signal, even if the main thread is stuck; a training overrides it by `catch_signals`.

    Raises:
        Stopped: a signal arrived.
    """
    signals, heard = Signals(launched()), threading.Event()

    def stop(number: int) -> None:
        if signals.note(number):
            if signals.count > 1:
                os._exit(128 + number)
            heard.set()
            pending_signals.append(number)
            raise Stopped(number)

    try:
        with exit_if_ignored(), handle_signals(stop, allowed=0, heard=heard):
            yield
    finally:
        pending_signals.clear()


def raise_if_stopped() -> None:
    """Raise `Stopped` again if a library has swallowed it, as a bare `except:` does.

    Raises:
        Stopped: a signal arrived before.
    """
    if pending_signals:
        raise Stopped(pending_signals[0])


@contextmanager
def exit_if_ignored() -> Iterator[None]:
    """End the process where Python ignores `Stopped`: in a destructor, or in a callback of an import."""
    before = sys.unraisablehook

    def end(ignored: "sys.UnraisableHookArgs") -> None:
        if isinstance(ignored.exc_value, Stopped):
            with suppress(AttributeError, OSError, ValueError):  # standard error may be closed, full or a lost terminal
                sys.stderr.write(f"error: {ignored.exc_value}\n")
            os._exit(ignored.exc_value.status)
        before(ignored)

    sys.unraisablehook = end
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def catch_signals() -> Iterator[Signals]:
    """Note SIGINT, SIGTERM and SIGHUP, so that the loop can finish its step and save.

    Raises:
        Stopped: on a second signal, or if one arrived before.
    """
    raise_if_stopped()
    with note_signals() as signals:
        yield signals


@contextmanager
def note_signals() -> Iterator[Signals]:
    """Note the first signal without obeying it, also while a process ends: a launcher sends SIGTERM after an error.

    Raises:
        Stopped: on a second signal.
    """
    signals = Signals(launched())

    def note(number: int) -> None:
        if signals.note(number) and signals.count > 1:
            raise Stopped(number, SECOND_SIGNAL)

    with handle_signals(note, allowed=1, heard=threading.Event()):
        yield signals


@contextmanager
def handle_signals(work: Callable[[int], None], allowed: int, heard: threading.Event) -> Iterator[None]:
    """Call `work` with each signal, and end the process if its main thread is stuck and runs no handler.

    Python runs handlers in the main thread, between two bytecode instructions: never while a library computes or waits
    in C. But it also writes each signal's number to a socket at once, which the thread of `force_exit` reads.
    SIGHUP stays ignored where it was, as under nohup.

    Args:
        allowed: how many signals the process survives.
        heard: set when the main thread has begun to end by itself.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    woken, waker = socket.socketpair()
    waker.setblocking(False)
    wakeup = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    given = woken, Signals(launched()), allowed, heard
    thread = threading.Thread(target=force_exit, args=given, daemon=True, name="zoo-signals")
    thread.start()
    heeded = [one for one in SIGNALS if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN]
    before = {number: signal.signal(number, lambda sent, _: work(sent)) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        waker.close()
        thread.join()
        woken.close()


def force_exit(woken: socket.socket, signals: Signals, allowed: int, heard: threading.Event) -> None:
    """Read the numbers of signals until the socket closes; end the process soon after more than `allowed`."""
    patience: float | None = None  # seconds until the process is ended; None: no limit
    status = 0
    while True:
        woken.settimeout(patience)  # not select: it fails for file descriptors from 1024 on
        try:
            number = woken.recv(1)
        except TimeoutError:
            if not heard.is_set():
                os._exit(status)
            number = b"\0"  # no signal: the main thread is ending, so wait for it without a limit
        if not number:
            return
        patience = None
        if number[0] in SIGNALS and signals.note(number[0]) and signals.count > allowed:
            status, patience = 128 + number[0], FORCE_AFTER
            if signals.count > allowed + 1:
                os._exit(status)


def launched() -> bool:
    """Whether torchrun, or `accelerate launch`, started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ
