"""Turns: each side of a comparison is a process; one at a time does a unit of work while the others are stopped.

The program listens on a Unix socket for each side. A side works until its first `Turn.done`, which ends its warm-up.
From then on, it answers each line `go` after one unit of work with the seconds that it took; `profile` also asks for
the kernels.
"""

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import torch

from rows.figures import Figures
from rows.kernels import Kernels
from zoo.devices.compiling import failures

PROGRAM = Path(__file__).parents[1] / "bench_side.py"
PATIENCE = 3600.0  # seconds for one unit of work; before the first, data may have to be tokenised
GO, PROFILE, END = "go", "profile", "end"
LATE = "was not done in time"


class Turn:
    """The side's end of the connection.

    Args:
        address: path of the program's socket; None (and in all processes but rank 0): `done` only counts.
        each: calls of `done` per turn, so that short steps are measured together.
    """

    def __init__(self, address: str | None, each: int) -> None:
        self.each, self.calls, self.units = each, 0, 0.0
        self.facts: Figures = {"libraries": memory("VmRSS")}
        self.began = time.perf_counter()
        self.asked, self.kernels = None, None
        if address is not None and os.environ.get("RANK", "0") == "0":
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(address)
            self.asked = connection.makefile("rw", encoding="utf-8")

    def note(self, **facts: Any) -> None:
        """Record facts for the program besides times, such as the model's number of parameters."""
        self.facts |= facts

    def done(self, units: float, **more: float) -> None:
        """Report finished work, in units such as tokens; at the end of a turn, waits for the next one."""
        self.calls, self.units = self.calls + 1, self.units + units
        if self.asked is None or self.calls % self.each:
            return
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds = time.perf_counter() - self.began
        profile = {} if self.kernels is None else self.kernels.stop(seconds)
        self.say({"units": self.units, "seconds": seconds, **more, **profile})
        word = self.asked.readline().strip()
        if word not in (GO, PROFILE):
            self.facts |= {"peak": memory("VmHWM"), "gpu": torch.cuda.max_memory_allocated(), "failures": failures}
            self.say(self.facts)
            os._exit(0)  # ends the training, which has a million steps left
        self.kernels = Kernels() if word == PROFILE else None
        self.began, self.units = time.perf_counter(), 0.0

    def say(self, figures: Figures) -> None:
        assert self.asked is not None
        self.asked.write(json.dumps(figures) + "\n")
        self.asked.flush()

    def forget_peak(self) -> None:
        """Reset the peak memory, so that it is that of the steps and not of reading data before them."""
        with suppress(OSError):  # missing in some sandboxes: then the peak is that of the whole process
            Path("/proc/self/clear_refs").write_text("5")
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()


def memory(key: str) -> int:
    """Bytes of memory that this process uses (VmRSS) or used at its peak (VmHWM)."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[key].split()[0]) * 1024 if key in status else 0


class Worker:
    """The program's end of the connection: a side's process, which is stopped except during its turns.

    Args:
        words: arguments of bench_side.py.
        folder: the folder of its socket and its log.
        processes: number of processes that train together; each has its share of the threads.
        until: the deadline, on the clock of time.monotonic().
    """

    def __init__(
        self,
        name: str,
        words: Sequence[str],
        folder: Path,
        threads: int,
        processes: int = 1,
        until: float = math.inf,
    ) -> None:
        self.name, self.until, file = name, until, name.replace(" ", "-")
        self.log, address = folder / f"{file}.log", folder / file
        launch = ["-m", "torch.distributed.run", f"--nproc_per_node={processes}"] if processes > 1 else []
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(address))
        self.listening.listen()
        command = [sys.executable, *launch, str(PROGRAM), *words, "--turns", str(address)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads // processes)}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    def warm_up(self) -> None:
        """Wait until the side has done its first unit, and stop it.

        Raises:
            RuntimeError: it failed or timed out; the message has the end of its log.
        """
        with self.listening:
            self.listening.settimeout(1.0)
            self.connection = self.accept(time.monotonic() + self.left())
        self.asked = self.connection.makefile("rw", encoding="utf-8")
        self.read()
        self.stop()

    def left(self) -> float:
        """Seconds left for the next unit."""
        return max(0.1, min(PATIENCE, self.until - time.monotonic()))

    def accept(self, until: float) -> socket.socket:
        while True:
            try:
                return self.listening.accept()[0]
            except TimeoutError:
                if self.process.poll() is not None:
                    self.fail(f"ended with status {self.process.returncode}")
                if time.monotonic() > until:
                    self.fail(LATE)

    def turn(self, word: str = GO) -> Figures:
        """Let the side do one turn, and return its figures; with PROFILE, those of its kernels too."""
        os.killpg(self.process.pid, signal.SIGCONT)
        figures = self.ask(word)
        self.stop()
        return figures

    def end(self) -> Figures:
        """End the side, and return the facts it recorded."""
        os.killpg(self.process.pid, signal.SIGCONT)
        facts = self.ask(END)
        self.kill()
        return facts

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGSTOP)

    def kill(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def ask(self, word: str) -> Figures:
        self.asked.write(f"{word}\n")
        self.asked.flush()
        return self.read()

    def read(self) -> Figures:
        self.connection.settimeout(self.left())
        try:
            line = self.asked.readline()
        except TimeoutError:
            self.fail(LATE)
        if not line:
            self.fail(f"ended with status {self.process.wait()}")
        figures: Figures = json.loads(line)
        return figures

    def fail(self, what: str) -> NoReturn:
        self.kill()
        last = self.log.read_text("utf-8", "replace")[-2000:]
        raise RuntimeError(f"side {self.name} {what}; the end of its log:\n{last}")
