"""A thread that ends the process when a step hangs or another process is lost: library timeouts are not enough."""

import faulthandler
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from zoo.training.supervision.heartbeat import Heartbeat, PeerFailure
from zoo.training.supervision.launch import HOW_TO_LAUNCH, describe_rendezvous

FAILED, WRONG = 1, 2  # exit statuses: the work failed, the request cannot be met
JOIN_TIMEOUT = 300.0  # seconds that processes have to find each other
WARN_AFTER = 10.0  # seconds after which they log that they wait
GRACE = 3.0  # seconds that the main thread has to notice a failure by itself
STDERR = 2  # the file descriptor: `sys.stderr` may have been replaced by an object without one
logger = logging.getLogger(__name__)


class Watchdog:
    """Expects signs of life: calls of `alive` by this process, and heartbeats of the others.

    Args:
        limit: seconds between two calls of `alive` at most, once there was one.
    """

    def __init__(self, limit: float) -> None:
        self.limit, self.every = limit, min(1.0, limit / 4)
        self.last = math.inf
        self.heartbeat: Heartbeat | None = None
        self.join_by, self.warn_by = math.inf, math.inf
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True, name="zoo-watchdog")
        self.thread.start()

    def alive(self) -> None:
        """Tell the watchdog that this process makes progress."""
        self.last = time.monotonic()

    @contextmanager
    def joining(self) -> Iterator[None]:
        """Expect all launched processes to find each other within JOIN_TIMEOUT seconds."""
        now = time.monotonic()
        self.join_by, self.warn_by = now + JOIN_TIMEOUT, now + WARN_AFTER
        try:
            yield
        finally:
            self.join_by = self.warn_by = math.inf

    def stop(self) -> None:
        """Stop watching, and wait for the thread to end."""
        self.stopped.set()
        if threading.current_thread() is not self.thread:
            self.thread.join()

    def watch(self) -> None:
        """Look at regular intervals; time in which this process was suspended (Ctrl-Z) does not count."""
        before = time.monotonic()
        while not self.stopped.wait(self.every):
            now = time.monotonic()
            self.look(now, asleep=now - before - self.every)
            before = now

    def look(self, now: float, asleep: float = 0.0) -> None:
        """Check for failures once, and end the process if there is one.

        Args:
            now: the time of `time.monotonic`.
            asleep: seconds since the last look in which this process was suspended.
        """
        if asleep > max(GRACE, self.every):
            self.last += asleep
            self.join_by += asleep
            if self.heartbeat is not None:
                self.heartbeat.shift_clocks(asleep)
        elif now > self.warn_by:
            self.warn_by = math.inf
            logger.warning("waiting for the other processes: %s", describe_rendezvous())
        elif now > self.join_by:
            logger.critical(
                "error: %s: not all of them joined within %.0f s: %s",
                describe_rendezvous(),
                JOIN_TIMEOUT,
                HOW_TO_LAUNCH,
            )
            leave_at_once(WRONG)
        elif now - self.last > self.limit:
            self.end_hanging(now - self.last)
        elif (heartbeat := self.heartbeat) and (failure := heartbeat.find_failure(heartbeat.timeout)):
            self.end_for_peer(heartbeat, failure)

    def end_hanging(self, seconds: float) -> None:
        """Report that this process hangs, print the stacks of its threads, and end it."""
        message = f"no progress for {seconds:.0f} s (training.hang_timeout); the stack of each thread follows"
        if self.heartbeat is not None:
            message = f"{self.heartbeat.name(self.heartbeat.process)}: {message}"
            self.heartbeat.announce_own(message)
        logger.critical("error: %s", message)
        faulthandler.dump_traceback(STDERR, all_threads=True)
        leave_at_once()

    def end_for_peer(self, heartbeat: Heartbeat, failure: PeerFailure) -> None:
        """End this process because of another one, unless the main thread stops the watchdog within GRACE seconds."""
        heartbeat.announce(failure)
        if self.stopped.wait(GRACE):
            return
        if heartbeat.is_reporter(failure):
            logger.critical("error: %s; all processes end", failure.what)
        heartbeat.kill_stopped(failure)
        leave_at_once(FAILED if failure.signal is None else 128 + failure.signal)


def leave_at_once(status: int = FAILED) -> None:
    """End the process from any thread, without the main one, which may be stuck."""
    logging.shutdown()
    with suppress(AttributeError, OSError, ValueError):  # standard error may be closed, full or a lost terminal
        sys.stderr.flush()
    os._exit(status)
