"""Heartbeats: every process tells the others that it is alive, through the store in which they found each other."""

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

LEFT = "left"
OFTEN = 1.0  # seconds between beats at the most


@dataclass(frozen=True)
class PeerFailure:
    """What is wrong with another process.

    Args:
        process: which one.
        what: what happened to it, in words, with its machine.
        raised: whether the process reported this itself.
        signal: the signal that stopped it; None: it was not a signal.
    """

    process: int
    what: str
    raised: bool = False
    signal: int | None = None


def describe_self() -> dict[str, str]:
    """Where this process is: its machine, its number there, and the namespace of that number."""
    names = Path("/proc/self/ns/pid")  # two containers on one machine may both have a process 7
    numbers = os.readlink(names) if names.exists() else ""
    return {"host": socket.gethostname(), "pid": str(os.getpid()), "numbers": numbers}


def process_state(pid: str) -> str | None:
    """The state of a process of this machine: R, S, D …, T stopped, Z ended; None: it is gone."""
    try:
        # the program's name comes before the state, in brackets, and may itself hold brackets and spaces
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None


class Heartbeat:
    """Sends this process's heartbeat and listens for those of the others, in a thread of its own.

    Args:
        timeout: seconds of silence that count as a failure.
    """

    def __init__(self, accelerator: Accelerator, timeout: float) -> None:
        self.process: int = accelerator.process_index
        self.count: int = accelerator.num_processes
        self.timeout, self.every = timeout, min(OFTEN, timeout / 10)
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        reach = timedelta(seconds=max(timeout, OFTEN))
        # torchrun keeps its store when it starts the processes again, so each attempt has keys of its own
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
        """Tell the others that this process is alive, and read their heartbeats.

        Args:
            number: of this heartbeat.
        """
        # Before the store is read: a process that ends because of another one announces that in the store first. If it
        # is gone here, its announcement is read below, and the one that was lost first is named.
        gone = self.find_gone()
        with suppress(RuntimeError):  # a store that no longer answers leaves `answered` behind, and is found by that
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
        """Do not count a time in which this process did not run as silence of the others."""
        self.answered += seconds
        self.heard = [heard + seconds for heard in self.heard]

    def find_gone(self) -> list[int]:
        """The other processes of this machine that have ended."""
        others = [process for process in range(self.count) if process != self.process and self.is_near(process)]
        return [process for process in others if process_state(self.who[process]["pid"]) in (None, "Z", "X")]

    def find_failure(self, silence: float) -> PeerFailure | None:
        """What is wrong with another process, if anything is.

        Args:
            silence: seconds without a beat that are too many.
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
        """Why a process is silent, if this one can see that."""
        return ": it is stopped" if self.is_near(process) and process_state(self.who[process]["pid"]) == "T" else ""

    def is_near(self, process: int) -> bool:
        """Whether this process can look at another one: both are on one machine and in one namespace of processes."""
        here, there = ((who["host"], who["numbers"]) for who in (self.who[self.process], self.who[process]))
        return bool(here[1]) and here == there

    def name(self, process: int) -> str:
        """A process as a user finds it."""
        return f"process {process} (pid {self.who[process]['pid']} on {self.who[process]['host']})"

    def announce_own(self, message: str, signal: int | None = None) -> None:
        """Tell the others that this process fails, and why."""
        self.announce(PeerFailure(self.process, f"{self.name(self.process)} failed: {message}", True, signal))

    def announce(self, failure: PeerFailure) -> None:
        """Tell the others why all of them end; the first announcement counts."""
        self.attempt(lambda: self.store.compare_set("failed", "", json.dumps(asdict(failure))))

    def attempt(self, work: Callable[[], object]) -> None:
        """Do something with the store, without waiting for one that does not answer."""

        def quietly() -> None:
            with suppress(RuntimeError):
                work()

        thread = threading.Thread(target=quietly, daemon=True, name="zoo-heartbeat-word")
        thread.start()
        thread.join(OFTEN)

    def kill_stopped(self, failure: PeerFailure) -> None:
        """Kill another process of this machine that is stopped: it cannot handle any other signal."""
        pid = self.who[failure.process]["pid"]
        if self.is_near(failure.process) and process_state(pid) == "T":
            with suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)

    def is_reporter(self, failure: PeerFailure) -> bool:
        """Whether this process is the one that reports it to the user: the main one, else the next one."""
        return self.process == (1 if failure.process == 0 and not failure.raised else 0)

    def leave(self, done: bool) -> None:
        """Stop beating.

        Args:
            done: whether this process has done its work, so that its silence is no failure.
        """
        self.over.set()
        self.thread.join(self.every + OFTEN)
        if done:
            self.attempt(lambda: self.store.set(f"beat/{self.process}", LEFT))
