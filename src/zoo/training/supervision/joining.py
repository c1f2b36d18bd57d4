"""Processes that train together: joined, watched over, and ended together, whatever happens to one of them."""

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accelerate import Accelerator

from zoo.training.settings import Training
from zoo.training.strategy import choose_strategy
from zoo.training.supervision.heartbeat import Heart, PeerFailure
from zoo.training.supervision.launch import describe_processes, start_processes, stop_processes
from zoo.training.supervision.processes import Processes
from zoo.training.supervision.stopping import Stopped, noting
from zoo.training.supervision.watchdog import GRACE, Watchdog

logger = logging.getLogger(__name__)


@contextmanager
def join(settings: Training, folder: Path) -> Iterator[Processes]:
    """Join the processes that were launched together; what ends one of them ends all.

    Raises:
        ValueError: as `start_processes`.
        RuntimeError: another process was lost; the message names it.
    """
    watchdog = Watchdog(settings.hang_timeout)
    try:
        with watchdog.joining():
            accelerator = start_processes(settings, folder)
        if accelerator.is_main_process:
            expected = choose_strategy(settings, accelerator.num_processes)
            logger.info("started: %s", describe_processes(accelerator, settings, expected))
        try:
            if accelerator.num_processes > 1:
                watchdog.heart = Heart(accelerator, settings.peer_timeout)
            yield Processes(accelerator, watchdog.alive)
            accelerator.wait_for_everyone()
            leave(watchdog, accelerator)
        except BaseException as error:
            saved = isinstance(error, Stopped) and error.saved
            with noting():  # why this process ends is to be heard, also where its launcher is quicker
                leave(watchdog, accelerator, None if saved else error)
            raise
    finally:
        watchdog.stop()


def leave(watchdog: Watchdog, accelerator: Accelerator, error: BaseException | None = None) -> None:
    """End what watches, and the group of processes.

    Args:
        error: why this process fails; None: it has done its work.
    """
    watchdog.stop()
    try:
        if watchdog.heart is not None and error is not None:
            fail(watchdog.heart, error)
    finally:
        if watchdog.heart is not None:
            watchdog.heart.leave(error is None)
        stop_processes(accelerator)


def fail(heart: Heart, error: BaseException) -> None:
    """Tell the others why this process fails, unless one of them is the reason.

    Raises:
        RuntimeError: another one is the reason; torch only says that a connection was closed.
        Stopped: another one was stopped by a signal.
    """
    trouble = await_trouble(heart) if isinstance(error, RuntimeError) else None
    if trouble is None:
        heart.tell(str(error) or type(error).__name__, signal_of(error))
    else:
        heart.report(trouble)
    if trouble is None or heart.count > 2:
        time.sleep(2 * heart.every)  # the store ends with the process that keeps it, and the others are to hear this
    if trouble is None:
        return
    heart.bury(trouble)
    if heart.speaks(trouble) and heart.process != 0:  # the command line reports for process 0
        logger.critical("error: %s; all processes end", trouble.what)
    if trouble.signal is not None:
        raise Stopped(trouble.signal) from error
    raise RuntimeError(f"{trouble.what}; all processes end") from error


def signal_of(error: BaseException) -> int | None:
    """The signal that an exception stands for."""
    if isinstance(error, KeyboardInterrupt):
        return signal.SIGINT
    return error.signal if isinstance(error, Stopped) else None


def await_trouble(heart: Heart) -> PeerFailure | None:
    """What is wrong with another process, which may take some beats to be known."""
    end = time.monotonic() + GRACE + 5 * heart.every
    while time.monotonic() < end:
        trouble = heart.trouble(min(heart.timeout, GRACE + 3 * heart.every))
        if trouble is not None:
            return trouble
        time.sleep(heart.every / 2)
    return None
