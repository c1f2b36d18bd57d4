"""A thread that ends the process when a step hangs or another process is lost: library timeouts are not enough."""

import faulthandler
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from zoo.training.supervision.heartbeat import Heartbeat, PeerFailure
from zoo.training.supervision.launch import WAYS, meeting

FAILED, WRONG = 1, 2  # exit statuses: the work failed, the request cannot be met
JOIN, SOON = 300.0, 10.0  # seconds that processes may take to find each other, and after which they say that they wait
GRACE = 3.0  # seconds in which the main thread may notice by itself
STDERR = 2
logger = logging.getLogger(__name__)


class Watchdog:
    """Waits for signs of life: of this process from `alive`, of the others from their heartbeats.

    Args:
        limit: seconds that may lie between two signs of this process, once there was one.
    """

    def __init__(self, limit: float) -> None:
        self.limit, self.every = limit, min(1.0, limit / 4)
        self.last = math.inf
        self.heartbeat: Heartbeat | None = None
        self.join_by, self.say_by = math.inf, math.inf
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True, name="zoo-watchdog")
        self.thread.start()

    def alive(self) -> None:
        """Note a sign of life of this process."""
        self.last = time.monotonic()

    @contextmanager
    def joining(self) -> Iterator[None]:
        """Expect all processes that were launched to find each other, within some minutes."""
        now = time.monotonic()
        self.join_by, self.say_by = now + JOIN, now + SOON
        try:
            yield
        finally:
            self.join_by = self.say_by = math.inf

    def stop(self) -> None:
        self.over.set()
        if threading.current_thread() is not self.thread:
            self.thread.join()

    def watch(self) -> None:
        """Look again and again; time in which this process was itself stopped (Ctrl-Z) does not count."""
        before = time.monotonic()
        while not self.over.wait(self.every):
            now = time.monotonic()
            self.look(now, asleep=now - before - self.every)
            before = now

    def look(self, now: float, asleep: float = 0.0) -> None:
        """See whether anything is wrong at a time.

        Args:
            asleep: seconds since the last look in which this process did not run.
        """
        if asleep > max(GRACE, self.every):
            self.last += asleep
            self.join_by += asleep
            if self.heartbeat is not None:
                self.heartbeat.shift_clocks(asleep)
        elif now > self.say_by:
            self.say_by = math.inf
            logger.warning("waiting for the other processes: %s", meeting())
        elif now > self.join_by:
            logger.critical("error: %s: not all of them joined within %.0f s: %s", meeting(), JOIN, WAYS)
            leave_at_once(WRONG)
        elif now - self.last > self.limit:
            self.end_hanging(now - self.last)
        elif (heartbeat := self.heartbeat) and (failure := heartbeat.find_failure(heartbeat.timeout)):
            self.end_alone(heartbeat, failure)

    def end_hanging(self, seconds: float) -> None:
        """Report that this process hangs, print the stacks of its threads, and end it."""
        message = f"no progress for {seconds:.0f} s (training.hang_timeout); the stack of each thread follows"
        if self.heartbeat is not None:
            message = f"{self.heartbeat.name(self.heartbeat.process)}: {message}"
            self.heartbeat.announce_own(message)
        logger.critical("error: %s", message)
        faulthandler.dump_traceback(STDERR, all_threads=True)
        leave_at_once()

    def end_alone(self, heartbeat: Heartbeat, failure: PeerFailure) -> None:
        """End this process because of another one, unless the main thread does so by itself."""
        heartbeat.announce(failure)
        if self.over.wait(GRACE):
            return
        if heartbeat.is_reporter(failure):
            logger.critical("error: %s; all processes end", failure.what)
        heartbeat.kill_stopped(failure)
        leave_at_once(FAILED if failure.signal is None else 128 + failure.signal)


def leave_at_once(status: int = FAILED) -> None:
    """End the process from whichever thread this is: the main one may be stuck."""
    logging.shutdown()
    sys.stderr.flush()
    os._exit(status)
