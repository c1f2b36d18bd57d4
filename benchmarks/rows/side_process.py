"""Each side of a comparison is a process; the sides take turns: one works while the others are stopped.

The program listens on a Unix socket for each side. A side works until its first full turn, which ends its warm-up.
From then on, it does one turn for each line `go`, and answers with the seconds that it took; `profile` also asks for
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
from rows.gpu_profile import KernelRecorder
from zoo.devices.compiling import failures

PROGRAM = Path(__file__).parents[1] / "bench_side.py"
TURN_TIMEOUT = 3600.0  # seconds; before the first turn, data may have to be tokenized
GO, PROFILE, END = "go", "profile", "end"
TIMED_OUT = "was not done in time"


class TurnReporter:
    """The side's end of the connection: it times the turns, and reports them to the program.

    Args:
        address: path of the program's socket; None (and in all processes but rank 0): `report` only counts.
        steps_per_turn: calls of `report` per turn, so that short steps are measured together.
    """

    def __init__(self, address: str | None, steps_per_turn: int) -> None:
        self.steps_per_turn, self.calls, self.units = steps_per_turn, 0, 0.0
        self.facts: Figures = {"libraries": process_memory("VmRSS")}
        self.began = time.perf_counter()
        self.stream, self.recorder = None, None
        if address is not None and os.environ.get("RANK", "0") == "0":
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(address)
            self.stream = connection.makefile("rw", encoding="utf-8")

    def record(self, **facts: Any) -> None:
        """Record facts for the program besides times, such as the model's number of parameters."""
        self.facts |= facts

    def report(self, units: float, **figures: float) -> None:
        """Report finished work, in units such as tokens; at the end of a turn, wait for the next one.

        Args:
            figures: further figures of the turn; `seconds` replaces the measured time.
        """
        self.calls, self.units = self.calls + 1, self.units + units
        if self.stream is None or self.calls % self.steps_per_turn:
            return
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds = time.perf_counter() - self.began
        profile = {} if self.recorder is None else self.recorder.stop(seconds)
        self.send({"units": self.units, "seconds": seconds, **figures, **profile})
        command = self.stream.readline().strip()
        if command not in (GO, PROFILE):
            self.facts |= {"peak": process_memory("VmHWM"), "gpu": torch.cuda.max_memory_allocated()}
            self.send({**self.facts, "failures": failures})
            os._exit(0)  # ends the training, which has a million steps left
        self.recorder = KernelRecorder() if command == PROFILE else None
        self.began, self.units = time.perf_counter(), 0.0

    def send(self, figures: Figures) -> None:
        assert self.stream is not None
        self.stream.write(json.dumps(figures) + "\n")
        self.stream.flush()

    def reset_peak_memory(self) -> None:
        """Reset the peak memory, so that reading the data before the steps does not count."""
        with suppress(OSError):  # missing in some sandboxes: then the peak is that of the whole process
            Path("/proc/self/clear_refs").write_text("5")
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()


def process_memory(key: str) -> int:
    """Bytes of memory that this process uses (VmRSS) or used at its peak (VmHWM)."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[key].split()[0]) * 1024 if key in status else 0


class SideProcess:
    """The program's end of the connection: a side's process, which is stopped except during its turns.

    Args:
        arguments: of bench_side.py.
        folder: for its socket and its log.
        processes: number of processes that train together; each has its share of the threads.
        deadline: on the clock of time.monotonic().
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        folder: Path,
        threads: int,
        processes: int = 1,
        deadline: float = math.inf,
    ) -> None:
        self.name, self.deadline, file = name, deadline, name.replace(" ", "-")
        self.log, address = folder / f"{file}.log", folder / file
        launcher = ["-m", "torch.distributed.run", f"--nproc_per_node={processes}"] if processes > 1 else []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(address))
        self.listener.listen()
        command = [sys.executable, *launcher, str(PROGRAM), *arguments, "--turns", str(address)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads // processes)}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    def warm_up(self) -> None:
        """Wait until the side has done its first turn, and stop it.

        Raises:
            RuntimeError: it failed or timed out; the message has the end of its log.
        """
        with self.listener:
            self.listener.settimeout(1.0)
            self.connection = self.accept(time.monotonic() + self.seconds_left())
        self.stream = self.connection.makefile("rw", encoding="utf-8")
        self.receive()
        self.suspend()

    def seconds_left(self) -> float:
        """Seconds left for the next turn."""
        return max(0.1, min(TURN_TIMEOUT, self.deadline - time.monotonic()))

    def accept(self, deadline: float) -> socket.socket:
        while True:
            try:
                return self.listener.accept()[0]
            except TimeoutError:
                if self.process.poll() is not None:
                    self.fail(f"ended with status {self.process.returncode}")
                if time.monotonic() > deadline:
                    self.fail(TIMED_OUT)

    def run_turn(self, command: str = GO) -> Figures:
        """Let the side do one turn; returns its figures, with PROFILE also those of its kernels."""
        os.killpg(self.process.pid, signal.SIGCONT)
        figures = self.request(command)
        self.suspend()
        return figures

    def end(self) -> Figures:
        """End the side; returns the facts it recorded."""
        os.killpg(self.process.pid, signal.SIGCONT)
        facts = self.request(END)
        self.kill()
        return facts

    def suspend(self) -> None:
        os.killpg(self.process.pid, signal.SIGSTOP)

    def kill(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def request(self, command: str) -> Figures:
        self.stream.write(f"{command}\n")
        self.stream.flush()
        return self.receive()

    def receive(self) -> Figures:
        self.connection.settimeout(self.seconds_left())
        try:
            reply = self.stream.readline()
        except TimeoutError:
            self.fail(TIMED_OUT)
        if not reply:
            self.fail(f"ended with status {self.process.wait()}")
        figures: Figures = json.loads(reply)
        return figures

    def fail(self, reason: str) -> NoReturn:
        self.kill()
        end = self.log.read_text("utf-8", "replace")[-2000:]
        raise RuntimeError(f"side {self.name} {reason}; the end of its log:\n{end}")
