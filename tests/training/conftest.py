"""Many processes at little cost: they are forked from one that has imported everything."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from patience import HANGS
from ports import free_port

HERE = Path(__file__).parent


@dataclass
class Ranks:
    """Processes that train together."""

    server: "Server"
    pids: list[int]
    logs: list[Path]

    def wait(self) -> list[int]:
        """The exit status of each; 143 and minus 15 differ."""
        return [self.server.status(pid) for pid in self.pids]

    def said(self, process: int = 0) -> str:
        return self.logs[process].read_text()


class Server:
    """The process that forks."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "ranks.py")],
            env=environment,
            bufsize=0,  # what a buffer holds, select does not see
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.started: list[list[int]] = []
        self.ended: dict[int, int] = {}
        assert self.process.stdout is not None and self.process.stdout.readline() == b"ready\n"

    def start(self, folder: Path, count: int, machines: Sequence[Mapping[str, str]] = (), **request: Any) -> Ranks:
        """Begin processes that train in a folder.

        Args:
            machines: the environment of each machine, which the processes are dealt out to; none: they share this one.
        """
        shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        shared |= {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
        environments = [
            {
                **shared,
                "RANK": str(r),
                "LOCAL_RANK": str(r),
                **(machines[r * len(machines) // count] if machines else {}),
            }
            for r in range(count)
        ]
        logs = [folder.with_name(f"{folder.name}-{r}-{time.monotonic_ns()}.log") for r in range(count)]
        full = {"folder": str(folder), "environments": environments, "logs": [str(log) for log in logs], **request}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(full).encode() + b"\n")
        while not self.started:
            self.read()
        return Ranks(self, self.started.pop(), logs)

    def read(self) -> None:
        """Take in one answer."""
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], HANGS)[0], "no answer: a process hangs"
        answer = json.loads(self.process.stdout.readline())
        if "started" in answer:
            self.started.append(answer["started"])
        else:
            self.ended[answer["ended"][0]] = answer["ended"][1]

    def status(self, pid: int) -> int:
        while pid not in self.ended:
            self.read()
        return self.ended[pid]

    def close(self) -> None:
        with self.process:  # which closes its pipes
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait(timeout=HANGS)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Starts processes that train together."""
    running = Server()
    yield running
    running.close()


@pytest.fixture
def heeded_hangup() -> Iterator[None]:
    """Give SIGHUP its default handler, which it lacks under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
