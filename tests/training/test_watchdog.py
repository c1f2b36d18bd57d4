"""Claims about the watchdog: silence ends a process, signs of life keep it, and a pause of all is no silence."""

import errno
import logging
import os
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import nn

from patience import HANGS
from zoo.blocks.projections import are_plain
from zoo.training.supervision import watchdog as watchdog_module
from zoo.training.supervision.heartbeat import PeerFailure, describe_self, process_state
from zoo.training.supervision.watchdog import Watchdog
from zoo.training.validation import report_progress


class Watched(Watchdog):
    """Looks only when it is asked to, and remembers what it would have ended the process for."""

    def __init__(self, limit: float) -> None:
        super().__init__(limit)
        self.stop()
        self.hung: list[float] = []

    def end_hanging(self, seconds: float) -> None:
        self.hung.append(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which passes when a test says so."""
    now = [1000.0]
    monkeypatch.setattr(watchdog_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_nothing_happens_before_the_first_sign_of_life(clock: list[float]):
    watchdog = Watched(0.1)
    watchdog.look(1e9)
    assert not watchdog.hung


def test_silence_after_a_sign_of_life_is_a_hang(clock: list[float]):
    watchdog = Watched(3.0)
    watchdog.alive()
    watchdog.look(1002.5)
    clock[0] = 1002.0
    watchdog.alive()
    watchdog.look(1004.5)
    assert not watchdog.hung
    watchdog.look(1005.5)
    assert watchdog.hung == [3.5]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (None, 1)])
def test_a_process_ends_with_the_status_of_the_one_that_it_ends_for(
    number: int | None, status: int, monkeypatch: pytest.MonkeyPatch
):
    left: list[int] = []
    monkeypatch.setattr(watchdog_module, "leave_at_once", left.append)
    monkeypatch.setattr(watchdog_module, "GRACE", 0.0)
    heartbeat = SimpleNamespace(announce=id, is_reporter=lambda failure: False, kill_stopped=id)
    watchdog = Watched(1.0)
    watchdog.stopped.clear()  # the main thread hangs
    watchdog.end_for_peer(heartbeat, PeerFailure(1, "it is gone", signal=number))  # type: ignore[arg-type]
    assert left == [status]


def test_a_time_in_which_this_process_did_not_run_is_no_silence(clock: list[float]):
    watchdog, shifted = Watched(3.0), list[float]()
    heartbeat: Any = SimpleNamespace(timeout=1.0, find_failure=lambda silence: None, shift_clocks=shifted.append)
    watchdog.heartbeat = heartbeat
    watchdog.alive()
    watchdog.look(1060.0, asleep=59.0)
    watchdog.look(1061.5)
    assert not watchdog.hung and shifted == [59.0]


def test_processes_have_some_minutes_to_find_each_other(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    left: list[int] = []
    monkeypatch.setattr(watchdog_module, "leave_at_once", left.append)
    monkeypatch.setenv("WORLD_SIZE", "2")
    watchdog = Watched(1.0)
    with watchdog.joining():
        watchdog.look(1000 + 0.9 * watchdog_module.WARN_AFTER)
        assert not caplog.text
        watchdog.look(1000 + 1.1 * watchdog_module.WARN_AFTER)
        assert "waiting for the other processes: WORLD_SIZE is 2, this is process" in caplog.text
        watchdog.look(1000 + 0.9 * watchdog_module.JOIN_TIMEOUT)
        assert not left
        watchdog.look(1000 + 1.1 * watchdog_module.JOIN_TIMEOUT)
        assert left == [2] and "not all of them joined within 300 s" in caplog.text
    watchdog.look(1000 + 9 * watchdog_module.JOIN_TIMEOUT)
    assert left == [2], "once they have found each other, nobody waits"


def test_a_hung_process_ends_with_status_1_and_a_dump_of_its_stacks():
    code = (
        "import time; from zoo.training.supervision.watchdog import Watchdog; Watchdog(0.2).alive(); time.sleep(3600)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 1
    assert "no progress for" in done.stderr and "(training.hang_timeout)" in done.stderr
    assert 'File "<string>", line 1 in <module>' in done.stderr


@pytest.mark.parametrize("stderr", [None, Mock(flush=Mock(side_effect=OSError(errno.EIO, "Input/output error")))])
def test_a_process_ends_where_standard_error_is_closed_or_a_lost_terminal(
    monkeypatch: pytest.MonkeyPatch, stderr: Mock | None
):
    left: list[int] = []
    monkeypatch.setattr(logging, "shutdown", Mock())
    monkeypatch.setattr(os, "_exit", left.append)
    monkeypatch.setattr(sys, "stderr", stderr)
    watchdog_module.leave_at_once()
    assert left == [1]


def test_a_living_process_is_told_from_one_that_is_gone():
    with subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE) as child:
        assert process_state(describe_self()["pid"]) == "R"
    assert process_state(str(child.pid)) is None
    assert PeerFailure(1, "was killed") != PeerFailure(2, "was killed")


def test_the_state_of_a_process_is_read_whatever_bytes_its_name_has():
    rename = ["bash", "-c", "printf '\\xff) Z' > /proc/$$/comm; echo; read"]
    with subprocess.Popen(rename, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline()
        assert process_state(str(child.pid)) in ("R", "S")


def test_validation_gives_signs_of_life_in_whatever_way_a_model_is_called():
    model = nn.Sequential(nn.LayerNorm(2), nn.Linear(2, 3), nn.Sequential(nn.ReLU()))
    signs: list[int] = []
    with report_progress(model, lambda: signs.append(1)):
        model(torch.zeros(1, 2))
        model[0](torch.zeros(1, 2))
        assert are_plain([model[1]]), "what its head says is computed some rows at a time, as in training"
    model(torch.zeros(1, 2))
    assert len(signs) == 3
