"""Heart-beats: every process tells the others that it lives, through the store in which they found each other."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from accelerate import Accelerator
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

LEFT = "left"
OFTEN = 1.0  # seconds between beats at the most


@dataclass(frozen=True)
class Trouble:
    """What is wrong with another process.

    Args:
        process: which one.
        what: what it did, with its place.
        raised: whether it said so itself.
        signal: which one stopped it; None: none did.
    """

    process: int
    what: str
    raised: bool = False
    signal: int | None = None


def describe_self() -> dict[str, str]:
    """Where this process is: its machine, its number there, and whose numbers those are."""
    names = Path("/proc/self/ns/pid")
    numbers = os.readlink(names) if names.exists() else ""
    return {"host": socket.gethostname(), "pid": str(os.getpid()), "numbers": numbers}


def life(pid: str) -> str | None:
    """How a process of this machine is: R, S, D …, T stopped, Z ended; None: it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None


class Heart:
    """Beats for this process and listens to the others, in a thread of its own.

    Args:
        timeout: seconds of silence that mean trouble.
    """

    def __init__(self, accelerator: Accelerator, timeout: float) -> None:
        self.process: int = accelerator.process_index
        self.count: int = accelerator.num_processes
        self.timeout, self.every = timeout, min(OFTEN, timeout / 10)
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        reach = timedelta(seconds=max(timeout, OFTEN))
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self.store = PrefixStore(f"zoo/{attempt}", TCPStore(address, port, timeout=reach, wait_for_workers=False))
        self.store.set(f"who/{self.process}", json.dumps(describe_self()))
        self.store.set(f"beat/{self.process}", "0")
        accelerator.wait_for_everyone()
        found = self.store.multi_get([f"who/{p}" for p in range(self.count)])
        self.who: list[dict[str, str]] = [json.loads(text) for text in found]
        self.beats = [b""] * self.count
        self.answered = time.monotonic()
        self.heard = [self.answered] * self.count
        self.failure: Trouble | None = None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.beat, daemon=True, name="zoo-heart")
        self.thread.start()

    def beat(self) -> None:
        """Say that this process lives, and hear who else does."""
        number = 0
        while not self.over.wait(self.every):
            number += 1
            with suppress(RuntimeError):  # a store that does not answer any more is noticed by that
                self.store.set(f"beat/{self.process}", str(number))
                beats = self.store.multi_get([f"beat/{p}" for p in range(self.count)])
                if self.failure is None and self.store.check(["failed"]):
                    self.failure = Trouble(**json.loads(self.store.get("failed")))
                self.answered = time.monotonic()
                for process, (old, new) in enumerate(zip(self.beats, beats, strict=True)):
                    self.heard[process] = self.heard[process] if old == new else self.answered
                self.beats = beats

    def trouble(self, silence: float) -> Trouble | None:
        """What is wrong with another process, if anything is.

        Args:
            silence: seconds without a beat that are too many.
        """
        if self.failure is not None:
            return None if self.failure.process == self.process else self.failure
        for process in range(self.count):
            if process != self.process and self.beats[process] != LEFT.encode():
                state = life(self.who[process]["pid"]) if self.is_near(process) else ""
                if state in (None, "Z", "X"):
                    return Trouble(process, f"{self.name(process)} was killed")
                quiet = self.answered - self.heard[process]
                if quiet > silence:
                    stopped = ": it is stopped" if state == "T" else ""
                    return Trouble(process, f"{self.name(process)} was silent for {quiet:.0f} s{stopped}")
        quiet = time.monotonic() - self.answered
        if quiet <= silence:
            return None
        keeper = "the launcher" if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" else self.name(0)
        stopped = ": it is stopped" if self.is_near(0) and life(self.who[0]["pid"]) == "T" else ""
        return Trouble(0, f"{keeper} was silent for {quiet:.0f} s{stopped}")

    def is_near(self, process: int) -> bool:
        """Whether this process can look at another one: the same machine, the same numbers of processes."""
        here, there = ((who["host"], who["numbers"]) for who in (self.who[self.process], self.who[process]))
        return bool(here[1]) and here == there

    def name(self, process: int) -> str:
        """A process as a user finds it."""
        return f"process {process} (pid {self.who[process]['pid']} on {self.who[process]['host']})"

    def tell(self, message: str, signal: int | None = None) -> None:
        """Tell the others that this process fails, and why; the first one to say so counts."""
        what = f"{self.name(self.process)} failed: {message}"
        failure = {"process": self.process, "what": what, "raised": True, "signal": signal}
        self.attempt(lambda: self.store.compare_set("failed", "", json.dumps(failure)))

    def attempt(self, work: Callable[[], object]) -> None:
        """Do something with the store, but do not wait for one that does not answer."""

        def quietly() -> None:
            with suppress(RuntimeError):
                work()

        thread = threading.Thread(target=quietly, daemon=True, name="zoo-heart-word")
        thread.start()
        thread.join(OFTEN)

    def bury(self, trouble: Trouble) -> None:
        """Kill another process of this machine that is stopped: nothing else would end it."""
        pid = self.who[trouble.process]["pid"]
        if self.is_near(trouble.process) and life(pid) == "T":
            with suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)

    def speaks(self, trouble: Trouble) -> bool:
        """Whether it is for this process to report: the main one, else the next one."""
        return self.process == (1 if trouble.process == 0 and not trouble.raised else 0)

    def leave(self, done: bool) -> None:
        """Stop beating.

        Args:
            done: whether this process has done its work, so that the others need not miss it.
        """
        self.over.set()
        self.thread.join(self.every + OFTEN)
        if done:
            self.attempt(lambda: self.store.set(f"beat/{self.process}", LEFT))
