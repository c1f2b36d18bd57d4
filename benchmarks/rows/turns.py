"""Turns: the sides of a comparison are processes, and one at a time does one unit of work while the others are stopped.

The program listens on a Unix socket for each side. A side works until its first `Turn.done`, which ends its warm-up;
from there on every line that it is sent (`go`) is answered, one unit later, with the seconds that the unit took.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

PROGRAM = Path(__file__).parents[1] / "bench_side.py"
PATIENCE = 3600.0  # seconds until the first unit is done: data may have to be tokenised
GO, END = "go", "end"
Figures = dict[str, Any]


class Turn:
    """The side's end.

    Args:
        address: of the program's socket; None, or in another process than the first of several: nobody asks.
        each: how many times `done` is called in one turn: steps that are short are measured together.
    """

    def __init__(self, address: str | None, each: int) -> None:
        self.each, self.calls, self.units = each, 0, 0.0
        self.facts: Figures = {"libraries": memory("VmRSS")}
        self.began = time.perf_counter()
        self.asked = None
        if address is not None and os.environ.get("RANK", "0") == "0":
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(address)
            self.asked = connection.makefile("rw", encoding="utf-8")

    def note(self, **facts: Any) -> None:
        """What the program should know of this side beside its seconds, such as its model's parameters."""
        self.facts |= facts

    def done(self, units: float, **more: float) -> None:
        """A unit of work is done, of so many tokens, say; returns when it is this side's turn again."""
        self.calls, self.units = self.calls + 1, self.units + units
        if self.asked is None or self.calls % self.each:
            return
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds = time.perf_counter() - self.began
        self.say({"units": self.units, "seconds": seconds, **more})
        if self.asked.readline().strip() != GO:
            self.facts |= {"peak": memory("VmHWM"), "gpu": torch.cuda.max_memory_allocated()}
            self.say(self.facts)
            os._exit(0)  # in the middle of a training that has a million steps left
        self.began, self.units = time.perf_counter(), 0.0

    def say(self, figures: Figures) -> None:
        assert self.asked is not None
        self.asked.write(json.dumps(figures) + "\n")
        self.asked.flush()

    def forget_peak(self) -> None:
        """Count the peak of memory from here on: that of the steps, not that of reading data before them."""
        Path("/proc/self/clear_refs").write_text("5")
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()


def memory(key: str) -> int:
    """Bytes of memory that this process has in use (VmRSS), or had at its peak (VmHWM)."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[key].split()[0]) * 1024


class Worker:
    """The program's end of a side: a process that is stopped unless it is its turn.

    Args:
        words: what the side's program is told.
        folder: of its socket and its log.
        processes: how many do its work together; each has its share of the threads.

    Raises:
        RuntimeError: it failed before its first unit was done; the message has the end of its log.
    """

    def __init__(self, name: str, words: Sequence[str], folder: Path, threads: int, processes: int = 1) -> None:
        self.log, address = folder / f"{name.replace(' ', '-')}.log", folder / "turns"
        address.unlink(missing_ok=True)
        launch = ["-m", "torch.distributed.run", f"--nproc_per_node={processes}"] if processes > 1 else []
        with socket.socket(socket.AF_UNIX) as listening, self.log.open("wb") as log:
            listening.bind(str(address))
            listening.listen()
            command = [sys.executable, *launch, str(PROGRAM), *words, "--turns", str(address)]
            environment = {**os.environ, "OMP_NUM_THREADS": str(threads // processes)}
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
            listening.settimeout(1.0)
            self.connection = self.accept(listening)
        self.connection.settimeout(PATIENCE)
        self.asked = self.connection.makefile("rw", encoding="utf-8")
        self.warm_up = self.read()
        self.stop()

    def accept(self, listening: socket.socket) -> socket.socket:
        while True:
            try:
                return listening.accept()[0]
            except TimeoutError:
                if self.process.poll() is not None:
                    self.fail()

    def turn(self) -> Figures:
        """Let the side do one unit of work."""
        os.killpg(self.process.pid, signal.SIGCONT)
        figures = self.ask(GO)
        self.stop()
        return figures

    def end(self) -> Figures:
        """End the side; what it noted."""
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
        line = self.asked.readline()
        if not line:
            self.fail()
        figures: Figures = json.loads(line)
        return figures

    def fail(self) -> None:
        self.kill()
        last = self.log.read_text("utf-8", "replace")[-2000:]
        raise RuntimeError(f"a side ended, with status {self.process.returncode}; the end of {self.log}:\n{last}")
