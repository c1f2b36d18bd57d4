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

LEFT = "left"  # the last heartbeat of a process that has finished its work
OFTEN = 1.0  # seconds between heartbeats at most


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
        # the program's name comes before the state, in brackets, and may itself hold brackets and spaces
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
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
        self.timeout, self.every = timeout, min(OFTEN, timeout / 10)
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        reach = timedelta(seconds=max(timeout, OFTEN))
        # torchrun keeps its store when it restarts the processes, so each attempt has keys of its own
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self.store = PrefixStore(f"zoo/{attempt}", TCPStore(address, port, timeout=reach, wait_for_workers=False))
        self.store.set(f"who/{self.process}", json.dumps(describe_self()))
        self.store.set(f"beat/{self.process}", "0")
        accelerator.wait_for_everyone()
        found = self.store.multi_get([f"who/{p}" for p in range(self.count)])
        self.who: list[dict[str, str]] = [json.loads(text) for text in found]
        self.beats = [b""] * self.count
        self.gone: list[int] = []
        self.answered = time.monotonic()
        self.heard = [self.answered] * self.count
        self.announced: PeerFailure | None = None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.beat, daemon=True, name="zoo-heartbeat")
        self.thread.start()

    def beat(self) -> None:
        """Send heartbeats until this process leaves."""
        number = 0
        while not self.over.wait(self.every):
            number += 1
            self.exchange(number)

    def exchange(self, number: int) -> None:
        """Send one heartbeat, and read those of the others.

        Args:
            number: of this heartbeat.
        """
        # Look for ended processes before reading the store: a process that ends because of another one announces that
        # first. So if it has ended here, its announcement is read below, and the original failure is named.
        gone = self.find_gone()
        with suppress(RuntimeError):  # if the store no longer answers, `answered` gets old, as `find_failure` sees
            self.store.set(f"beat/{self.process}", str(number))
            beats = self.store.multi_get([f"beat/{p}" for p in range(self.count)])
            if self.announced is None and self.store.check(["failed"]):
                self.announced = PeerFailure(**json.loads(self.store.get("failed")))
            self.answered = time.monotonic()
            for process, (old, new) in enumerate(zip(self.beats, beats, strict=True)):
                self.heard[process] = self.heard[process] if old == new else self.answered
            self.beats = beats
        self.gone = [process for process in gone if self.beats[process] != LEFT.encode()]

    def shift_clocks(self, seconds: float) -> None:
        """Do not count time in which this process was suspended as silence of the others."""
        self.answered += seconds
        self.heard = [heard + seconds for heard in self.heard]

    def find_gone(self) -> list[int]:
        """Return the other processes on this machine that have ended."""
        others = [process for process in range(self.count) if process != self.process and self.is_near(process)]
        return [process for process in others if process_state(self.who[process]["pid"]) in (None, "Z", "X")]

    def find_failure(self, silence: float) -> PeerFailure | None:
        """Return the failure of another process; None: none is known.

        Args:
            silence: seconds without a heartbeat that count as a failure.
        """
        if self.announced is not None and self.announced.process != self.process:
            return self.announced
        if self.gone:
            return PeerFailure(self.gone[0], f"{self.name(self.gone[0])} was killed")
        for process in range(self.count):
            quiet = self.answered - self.heard[process]
            if process != self.process and self.beats[process] != LEFT.encode() and quiet > silence:
                return PeerFailure(process, f"{self.name(process)} was silent for {quiet:.0f} s{self.why(process)}")
        quiet = time.monotonic() - self.answered
        if quiet <= silence:
            return None
        keeper = "the launcher" if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" else self.name(0)
        return PeerFailure(0, f"{keeper} was silent for {quiet:.0f} s{self.why(0)}")

    def why(self, process: int) -> str:
        """Return why a process is silent, as the end of a message; '' if this process cannot see that."""
        return ": it is stopped" if self.is_near(process) and process_state(self.who[process]["pid"]) == "T" else ""

    def is_near(self, process: int) -> bool:
        """Whether this process can inspect another one: both are on the same machine and in the same pid namespace."""
        here, there = ((who["host"], who["numbers"]) for who in (self.who[self.process], self.who[process]))
        return bool(here[1]) and here == there

    def name(self, process: int) -> str:
        """Name a process so that a user can find it: rank, pid and host."""
        return f"process {process} (pid {self.who[process]['pid']} on {self.who[process]['host']})"

    def announce_own(self, message: str, signal: int | None = None) -> None:
        """Tell the others that this process fails, and why."""
        self.announce(PeerFailure(self.process, f"{self.name(self.process)} failed: {message}", True, signal))

    def announce(self, failure: PeerFailure) -> None:
        """Tell the others why all processes end; only the first announcement counts."""
        self.attempt(lambda: self.store.compare_set("failed", "", json.dumps(asdict(failure))))

    def attempt(self, work: Callable[[], object]) -> None:
        """Run an operation on the store in a thread, so that a store that does not answer cannot block this one."""

        def quietly() -> None:
            with suppress(RuntimeError):
                work()

        thread = threading.Thread(target=quietly, daemon=True, name="zoo-heartbeat-word")
        thread.start()
        thread.join(OFTEN)

    def kill_stopped(self, failure: PeerFailure) -> None:
        """Kill another process on this machine if it is suspended: it cannot handle any other signal."""
        pid = self.who[failure.process]["pid"]
        if self.is_near(failure.process) and process_state(pid) == "T":
            with suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)

    def is_reporter(self, failure: PeerFailure) -> bool:
        """Whether this process reports a failure to the user: process 0 does, or process 1 if process 0 was lost."""
        return self.process == (1 if failure.process == 0 and not failure.raised else 0)

    def leave(self, done: bool) -> None:
        """Stop the heartbeat.

        Args:
            done: whether this process has finished its work, so that its silence is no failure.
        """
        self.over.set()
        self.thread.join(self.every + OFTEN)
        if done:
            self.attempt(lambda: self.store.set(f"beat/{self.process}", LEFT))
