"""Train in processes that are forked from this one, which has imported everything: one JSON request a line.

A request names the processes' environments, their logs and what they train; answers are the processes' ids, and later
`[id, status]` of each that ended.
"""

import ctypes
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from every_objective import take_all
from tiny import GOAL, TinyFeed, collate, settings
from torch import nn

from patience import HANGS
from zoo.batches.collate import MicroBatch
from zoo.cli.command import with_status
from zoo.models.create import create_model
from zoo.runs.run import RunFiles
from zoo.training.loop import train
from zoo.training.start import check_agreement, source_digest, start_run
from zoo.training.supervision.joining import join
from zoo.training.supervision.stopping import Stopped
from zoo.training.supervision.watchdog import Watchdog
from zoo.training.validation import Observers, Validation

MODEL = {"vocab_size": 11, "max_length": 6, "dropout": 0.0, "d_model": 8, "n_heads": 2, "d_ff": 16}
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "terminate": signal.SIGTERM}
SILENT = ("hang", "stop", "cut")  # what nobody hears of
SHORT = 2.0  # seconds, instead of the hour that a busy machine may take


class Faulty:
    """Rows become micro-batches, but for what a request wants to go wrong at a step of one process."""

    def __init__(self, fault: Mapping[str, Any], process: int, begun: Path) -> None:
        self.mine = fault if fault.get("process") == process else {}
        self.begun, self.steps = begun, 0

    def __call__(self, rows: Any, micro_batch: int) -> MicroBatch:
        part = collate(rows, micro_batch)
        self.steps += 1
        if self.steps != self.mine.get("step"):
            return part
        kind = self.mine["kind"]
        if kind in SILENT:
            self.begun.touch()
        if kind in SIGNALS:
            os.kill(os.getpid(), SIGNALS[kind])
        if kind == "raise":
            raise OSError("the disk with the data is gone")
        if kind == "cut":
            subprocess.run(["ip", "link", "set", os.environ["GLOO_SOCKET_IFNAME"], "down"], check=True)
        if kind == "hang":
            time.sleep(HANGS)
        if kind == "nan":
            part.inputs["tokens"][:] = 0  # the token whose vector is spoiled
        return part


def lose_patience(begun: Path, watchdog: Watchdog, hangs: bool) -> None:
    """Wait no longer than a short time, once a fault has begun of which nobody hears.

    Args:
        hangs: whether it is this process that hangs.
    """
    while not begun.exists():
        time.sleep(0.02)
    if hangs:
        watchdog.limit = SHORT
    elif watchdog.heartbeat is not None:
        watchdog.heartbeat.timeout = SHORT


def build(seed: int = 0, **changes: Any) -> nn.Module:
    return create_model("gpt2-nano", **MODEL, **changes).initialize(seed)


def spoil(model: nn.Module) -> None:
    """Let the model say NaN wherever token 0 stands alone in a row."""

    def spoiled(module: nn.Module, given: tuple[Any, ...], said: Any) -> None:
        bare = (given[0] == 0).all(1) if given else torch.zeros(1)
        said[bare] = torch.nan

    model.decoder.embeddings.tokens.register_forward_hook(spoiled)


def judge(model: nn.Module, process: int, between: Callable[[], None], stop: bool) -> dict[str, float]:
    """Each process validates as many batches as its own share has: here as many as its number, in two rounds."""
    part = collate(TinyFeed().take(2), 2)
    between()
    if stop:
        os.kill(os.getpid(), signal.SIGTERM)
    between()
    return {"loss": sum(float(model(**part.inputs).logits.mean()) for _ in range(process)), "batches": process}


def work(request: Mapping[str, Any]) -> None:
    """What one process does: it trains, or takes the first step of every objective."""
    if "every_objective" in request:
        take_all(Path(request["folder"]), request["every_objective"])
        return
    process, fault = int(os.environ["RANK"]), request.get("fault", {})
    patient = {"peer_timeout": HANGS, "hang_timeout": HANGS}
    own = {"steps": 6, "save_every": 3, "evaluate_every": 4, "micro_batch": 2, **patient, **request.get("training", {})}
    if request.get("other", {}).get("process") == process:
        own |= request["other"]["training"]
    training = settings(**own)
    folder = Path(request["folder"])
    model = build(**request.get("model", {}))
    if fault.get("kind") == "nan":
        spoil(model)
    begun = folder.with_name(f"{folder.name}.begun")
    with join(training, folder) as processes:
        given = begun, processes.alive.__self__, fault == {**fault, "process": process, "kind": "hang"}  # type: ignore[attr-defined]
        threading.Thread(target=lose_patience, args=given, daemon=True).start()
        check_agreement(processes, {"training": own})
        stop = fault == {"process": process, "kind": "validation"}
        validation = Validation(lambda model, between: judge(model, process, between, stop), "loss")
        observers = Observers(validation)
        with start_run(processes, folder, RunFiles({}), request.get("resume", False)) as run:
            train(model, TinyFeed(Faulty(fault, process, begun)), GOAL, training, run, processes, observers)


def begin(environment: Mapping[str, str], log: str, request: Mapping[str, Any]) -> int:
    """A forked process; its id."""
    child = os.fork()
    if child:
        return child
    os.environ |= environment
    if "MACHINE" in environment:
        move_to(environment["MACHINE"])
    descriptor = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    level = logging.INFO if environment["RANK"] == "0" else logging.CRITICAL
    logging.basicConfig(level=level, format="%(message)s", force=True)
    status = 1
    try:
        with_status(work)(request)
        status = 0
    except Stopped as stopped:
        status = stopped.status
    except SystemExit as left:
        status = int(left.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(status)


def move_to(machine: str) -> None:
    """Go on in a network namespace, under a host name of its own."""
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(f"/run/netns/{machine}", os.O_RDONLY)
    assert library.setns(descriptor, 0x40000000) == 0 and library.unshare(0x04000000) == 0
    socket.sethostname(machine)


def serve() -> None:
    """Answer requests until there are no more."""
    source_digest()  # what is read once here is the same in every process, also while somebody writes source files
    print("ready", flush=True)
    running: set[int] = set()
    while True:
        if select.select([sys.stdin], [], [], 0.02 if running else None)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            request = json.loads(line)
            started = [begin(e, log, request) for e, log in zip(request["environments"], request["logs"], strict=True)]
            running |= set(started)
            print(json.dumps({"started": started}), flush=True)
        for child in list(running):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                running.remove(child)
                print(json.dumps({"ended": [child, os.waitstatus_to_exitcode(status)]}), flush=True)


if __name__ == "__main__":
    serve()
