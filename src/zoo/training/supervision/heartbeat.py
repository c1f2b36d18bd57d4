"""Heartbeats: every process tells the others that it is alive, through the TCP store by which they found each other."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

from accelerate import Accelerator
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

FINISHED = "left"  # the last heartbeat of a process that has finished its work
LONGEST_INTERVAL = 1.0  # seconds between heartbeats at most


@dataclass(frozen=True)
class PeerFailure:
    """The failure of a process, as the others report it.

    Args:
        process: its rank.
        what: what happened to it, in words, with its machine.
        raised: whether the process reported the failure itself.
        signal: the signal that stopped it; None: it was not a signal.
    """

    process: int
    what: str
    raised: bool = False
    signal: int | None = None


def describe_self() -> dict[str, str]:
    """Return where this process runs: host, process id, and pid namespace."""
    names = Path("/proc/self/ns/pid")  # two containers on one machine may both have a process 7
    numbers = os.readlink(names) if names.exists() else ""
    return {"host": socket.gethostname(), "pid": str(os.getpid()), "numbers": numbers}


def process_state(pid: str) -> str | None:
    """Return the state of a process on this machine: R, S, D …, T stopped, Z zombie; None: there is none."""
    try:
        # the program's name comes before the state, in brackets, and may itself hold brackets and spaces, and any bytes
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None


class Heartbeat:
    """Sends this process's heartbeat and reads those of the others, in a thread of its own.

    Args:
        timeout: seconds of silence that count as a failure.
    """

    def __init__(self, accelerator: Accelerator, timeout: float) -> None:
        self.process: int = accelerator.process_index
        self.count: int = accelerator.num_processes
        self.timeout, self.every = timeout, min(LONGEST_INTERVAL, timeout / 10)
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        reach = timedelta(seconds=max(timeout, LONGEST_INTERVAL))
        # torchrun keeps its store when it restarts the processes, so each attempt has keys of its own
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self.store = PrefixStore(f"zoo/{attempt}", TCPStore(address, port, timeout=reach, wait_for_workers=False))
        self.store.set(f"who/{self.process}", json.dumps(describe_self()))
        self.store.set(f"beat/{self.process}", "0")
        accelerator.wait_for_everyone()
        found = self.store.multi_get([f"who/{p}" for p in range(self.count)])
        self.identities: list[dict[str, str]] = [json.loads(text) for text in found]
        self.beats = [b""] * self.count
        self.ended: list[int] = []
        self.store_answered_at = time.monotonic()
        self.last_heard = [self.store_answered_at] * self.count
        self.announced: PeerFailure | None = None
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.beat, daemon=True, name="zoo-heartbeat")
        self.thread.start()

    def beat(self) -> None:
        """Send heartbeats until this process leaves."""
        number = 0
        while not self.stopped.wait(self.every):
            number += 1
            self.exchange(number)

    def exchange(self, number: int) -> None:
        """Send one heartbeat, and read those of the others.

        Args:
            number: of this heartbeat.
        """
        # Look for ended processes before reading the store: a process that ends because of another one announces that
        # first. So if it has ended here, its announcement is read below, and the original failure is named.
        ended = self.find_ended()
        # If the store no longer answers, `store_answered_at` gets old, as `find_failure` sees.
        with suppress(RuntimeError):
            self.store.set(f"beat/{self.process}", str(number))
            beats = self.store.multi_get([f"beat/{p}" for p in range(self.count)])
            if self.announced is None and self.store.check(["failed"]):
                self.announced = PeerFailure(**json.loads(self.store.get("failed")))
            self.store_answered_at = time.monotonic()
            for process, (old, new) in enumerate(zip(self.beats, beats, strict=True)):
                self.last_heard[process] = self.last_heard[process] if old == new else self.store_answered_at
            self.beats = beats
        self.ended = [process for process in ended if self.beats[process] != FINISHED.encode()]

    def shift_clocks(self, seconds: float) -> None:
        """Do not count time in which this process was suspended as silence of the others."""
        self.store_answered_at += seconds
        self.last_heard = [heard + seconds for heard in self.last_heard]

    def find_ended(self) -> list[int]:
        """Return the other processes on this machine that have ended."""
        others = [process for process in range(self.count) if process != self.process and self.is_inspectable(process)]
        return [process for process in others if process_state(self.identities[process]["pid"]) in (None, "Z", "X")]

    def find_failure(self, silence: float) -> PeerFailure | None:
        """Return the failure of another process; None: none is known.

        Args:
            silence: seconds without a heartbeat that count as a failure.
        """
        if self.announced is not None and self.announced.process != self.process:
            return self.announced
        if self.ended:
            return PeerFailure(self.ended[0], f"{self.name(self.ended[0])} was killed")
        for process in range(self.count):
            quiet = self.store_answered_at - self.last_heard[process]
            if process != self.process and self.beats[process] != FINISHED.encode() and quiet > silence:
                return PeerFailure(
                    process, f"{self.name(process)} was silent for {quiet:.0f} s{self.silence_reason(process)}"
                )
        quiet = time.monotonic() - self.store_answered_at
        if quiet <= silence:
            return None
        keeper = "the launcher" if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" else self.name(0)
        return PeerFailure(0, f"{keeper} was silent for {quiet:.0f} s{self.silence_reason(0)}")

    def silence_reason(self, process: int) -> str:
        """Return why a process is silent, as the end of a message; '' if this process cannot see that."""
        return ": it is stopped" if self.is_stopped(process) else ""

    def is_stopped(self, process: int) -> bool:
        """Whether a process on this machine is suspended (Ctrl-Z)."""
        return self.is_inspectable(process) and process_state(self.identities[process]["pid"]) == "T"

    def is_inspectable(self, process: int) -> bool:
        """Whether this process can inspect another one: both are on the same machine and in the same pid namespace."""
        own, other = self.identities[self.process], self.identities[process]
        return bool(own["numbers"]) and all(own[key] == other[key] for key in ("host", "numbers"))

    def name(self, process: int) -> str:
        """Name a process so that a user can find it: rank, pid and host."""
        return f"process {process} (pid {self.identities[process]['pid']} on {self.identities[process]['host']})"

    def announce_own(self, message: str, signal: int | None = None) -> None:
        """Tell the others that this process fails, and why."""
        self.announce(PeerFailure(self.process, f"{self.name(self.process)} failed: {message}", True, signal))

    def announce(self, failure: PeerFailure) -> None:
        """Tell the others why all processes end; only the first announcement counts."""
        self.try_on_store(lambda: self.store.compare_set("failed", "", json.dumps(asdict(failure))))

    def try_on_store(self, work: Callable[[], object]) -> None:
        """Run an operation on the store in a thread, so that a store that does not answer cannot block this one."""

        def quietly() -> None:
            with suppress(RuntimeError):
                work()

        thread = threading.Thread(target=quietly, daemon=True, name="zoo-heartbeat-word")
        thread.start()
        thread.join(LONGEST_INTERVAL)

    def kill_stopped(self, failure: PeerFailure) -> None:
        """Kill another process on this machine if it is suspended: it cannot handle any other signal."""
        if self.is_stopped(failure.process):
            with suppress(OSError):
                os.kill(int(self.identities[failure.process]["pid"]), signal.SIGKILL)

    def is_reporter(self, failure: PeerFailure) -> bool:
        """Whether this process reports a failure to the user: process 0 does, or process 1 if process 0 was lost."""
        return self.process == (1 if failure.process == 0 and not failure.raised else 0)

    def leave(self, done: bool) -> None:
        """Stop the heartbeat.

        Args:
            done: whether this process has finished its work, so that its silence is no failure.
        """
        self.stopped.set()
        self.thread.join(self.every + LONGEST_INTERVAL)
        if done:
            self.try_on_store(lambda: self.store.set(f"beat/{self.process}", FINISHED))
