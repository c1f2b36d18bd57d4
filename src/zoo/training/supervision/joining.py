"""Join the processes that train together, watch over them, and end all of them if one fails."""

import atexit
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import distributed

from zoo.training.settings import Training
from zoo.training.supervision.heartbeat import Heartbeat, PeerFailure
from zoo.training.supervision.launch import describe_processes, describe_rendezvous, start_processes
from zoo.training.supervision.processes import Processes
from zoo.training.supervision.stopping import Stopped, note_signals
from zoo.training.supervision.watchdog import FAILED, GRACE, WRONG, Watchdog, leave_at_once

LEAVE_TIMEOUT = 20.0  # seconds that leaving the process group may take after an error
logger = logging.getLogger(__name__)


@contextmanager
def join(
    settings: Training, folder: Path, describe_choices: Callable[[torch.device], str] | None = None
) -> Iterator[Processes]:
    """Join the processes that were launched together; if one of them fails, all end.

    Args:
        describe_choices: returns what was chosen for the model on a device, for the log; it may raise a ValueError.

    Raises:
        ValueError: as `start_processes`.
        RuntimeError: as `start_processes`, or another process was lost; the message names it.
    """
    watchdog = Watchdog(settings.hang_timeout)
    try:
        with watchdog.joining():
            accelerator = start_processes(settings, folder)
        try:
            said = "" if describe_choices is None else f", {describe_choices(accelerator.device)}"
            if accelerator.is_main_process:
                logger.info("started: %s%s", describe_processes(accelerator, settings), said)
            if accelerator.num_processes > 1:
                watchdog.heartbeat = start_heartbeat(watchdog, accelerator, settings.peer_timeout)
            yield Processes(accelerator, watchdog.alive)
            accelerator.wait_for_everyone()
            leave(watchdog, accelerator)
        except BaseException as error:
            saved = isinstance(error, Stopped) and error.saved
            # a launcher sends SIGTERM to all once one process has ended: it must not interrupt the announcement
            with note_signals():
                leave(watchdog, accelerator, None if saved else error)
            raise
    finally:
        watchdog.stop()


def start_heartbeat(watchdog: Watchdog, accelerator: Accelerator, timeout: float) -> Heartbeat:
    """Start to exchange heartbeats.

    Between two trainings of one process group there are none, so another process may have ended unnoticed.

    Raises:
        RuntimeError: another process has ended.
    """
    with watchdog.joining():
        try:
            return Heartbeat(accelerator, timeout)
        except RuntimeError as error:
            raise RuntimeError(f"{describe_rendezvous()}, but another process has ended; all end ({error})") from error


def leave(watchdog: Watchdog, accelerator: Accelerator, error: BaseException | None = None) -> None:
    """Stop the watchdog and the heartbeat, and leave the process group.

    A process that has finished its work stays in the group until it exits, because its next training uses the same
    group: torch cannot make a second one with the store of the first.

    Args:
        error: why this process fails; None: it has finished its work.
    """
    watchdog.stop()
    heartbeat = watchdog.heartbeat  # None: this process trains alone
    try:
        if heartbeat is not None and error is not None:
            announce_failure(heartbeat, error)
    except BaseException as reason:  # another process is the reason
        error = reason
        raise
    finally:
        if heartbeat is not None:
            heartbeat.leave(error is None)
        for tracker in accelerator.trackers:
            tracker.finish()
        accelerator.trackers = []
        if heartbeat is not None and error is None:
            atexit.register(leave_group)
        else:
            with exit_if_stuck(None if heartbeat is None else error, accelerator.is_main_process):
                accelerator.end_training()  # leaves the group


def leave_group() -> None:
    """Leave the process group, if this process is still in it."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


@contextmanager
def exit_if_stuck(error: BaseException | None, reports: bool) -> Iterator[None]:
    """End this process if leaving the group hangs after an error.

    NCCL waits for collectives that are pending on the GPU, which the other processes may never join.

    Args:
        error: None: there was none, so the others will join.
        reports: whether this process's command line would print the error.
    """
    stuck = threading.Timer(LEAVE_TIMEOUT, end_stuck, [error, reports])
    stuck.daemon = True
    if error is not None:
        stuck.start()
    try:
        yield
    finally:
        stuck.cancel()


def end_stuck(error: BaseException, reports: bool) -> None:
    """End this process at once, with the message and the exit status of its error."""
    if reports:
        said = str(error) if isinstance(error, ValueError | RuntimeError | OSError | Stopped) else repr(error)
        logger.critical("error: %s", said or type(error).__name__)
    status = WRONG if isinstance(error, ValueError) else FAILED
    leave_at_once(error.status if isinstance(error, Stopped) else status)


def announce_failure(heartbeat: Heartbeat, error: BaseException) -> None:
    """Tell the others why this process fails, unless another process is the reason.

    Raises:
        RuntimeError: another process is the reason.
        Stopped: another process was stopped by a signal.
    """
    # torch also raises RuntimeError when a connection closes because another process was lost
    failure = await_failure(heartbeat) if isinstance(error, RuntimeError) else None
    if failure is None:
        stopped_by = error.signal if isinstance(error, Stopped) else None
        heartbeat.announce_own(str(error) or type(error).__name__, stopped_by)
    else:
        heartbeat.announce(failure)
    if failure is None or heartbeat.count > 2:
        # the store ends with the process that hosts it; the others must read the announcement before that
        time.sleep(2 * heartbeat.every)
    if failure is None:
        return
    heartbeat.kill_stopped(failure)
    if heartbeat.is_reporter(failure) and heartbeat.process != 0:  # the command line reports for process 0
        logger.critical("error: %s; all processes end", failure.what)
    if failure.signal is not None:
        raise Stopped(failure.signal) from error
    raise RuntimeError(f"{failure.what}; all processes end") from error


def await_failure(heartbeat: Heartbeat) -> PeerFailure | None:
    """Wait some heartbeats for the failure of another process; None: none became known."""
    end = time.monotonic() + GRACE + 5 * heartbeat.every
    while time.monotonic() < end:
        failure = heartbeat.find_failure(min(heartbeat.timeout, GRACE + 3 * heartbeat.every))
        if failure is not None:
            return failure
        time.sleep(heartbeat.every / 2)
    return None
