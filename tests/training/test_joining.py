"""Claims about processes that train together: what ends one ends all, with its name, and only one of them writes."""

import json
import math
import queue
import re
import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny import lines, losses, settings
from torch import nn

from zoo.experiments.session import fingerprint
from zoo.runs.saved import open_run
from zoo.training import start
from zoo.training.start import source_digest
from zoo.training.supervision import joining as joining_module
from zoo.training.supervision.stopping import Stopped, stop_at_once
from zoo.training.supervision.watchdog import Watchdog

# process, kind, processes, and what the process that reports says
FAULTS = {
    "kill1": (1, "kill", 2, r"process 1 \(pid \d+ on \S+\) was killed"),
    "kill0": (0, "kill", 2, r"process 0 \(pid \d+ on \S+\) was killed"),
    "kill2of4": (2, "kill", 4, r"process 2 \(pid \d+ on \S+\) was killed"),
    "stop1": (1, "stop", 2, r"process 1 \(pid \d+ on \S+\) was silent for \d+ s: it is stopped"),
    "stop0": (0, "stop", 2, r"process 0 \(pid \d+ on \S+\) was silent for \d+ s: it is stopped"),
    "raise1": (1, "raise", 2, r"process 1 \(pid \d+ on \S+\) failed: the disk with the data is gone"),
    "raise0": (0, "raise", 2, r"error: the disk with the data is gone"),
    "hang1": (1, "hang", 2, r"no progress for \d+ s \(training.hang_timeout\); the stack of each thread follows"),
}


@pytest.fixture(scope="module")
def ended(server: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Trainings in which one process goes wrong at the fourth step, all at once and all over."""
    folder = tmp_path_factory.mktemp("faults")
    begun = {}
    for name, (process, kind, count, _) in FAULTS.items():
        fault = {"process": process, "kind": kind, "step": 16 // count}  # the fourth step's last
        begun[name] = server.start(folder / name, count, training={"save_every": 2}, fault=fault)
    for ranks in begun.values():
        ranks.wait()
    return {**begun, "folder": folder}


@pytest.mark.parametrize("name", FAULTS)
def test_a_process_that_is_lost_ends_all_with_its_name(ended: dict[str, Any], name: str):
    process, kind, count, words = FAULTS[name]
    statuses = ended[name].wait()
    lost = statuses.pop(process)
    assert lost == (-9 if kind in ("kill", "stop") else 1) and set(statuses) == {1}
    reporting = process if kind == "hang" else 1 if process == 0 and kind != "raise" else 0
    assert re.search(words, ended[name].said(reporting)), ended[name].said(reporting)


def test_a_hang_shows_where_each_thread_stands(ended: dict[str, Any]):
    said = ended["hang1"].said(1)
    assert "most recent call first" in said and "ranks.py" in said and "zoo-feed" not in said.split("hang_timeout")[0]


def test_what_was_saved_before_is_whole(ended: dict[str, Any]):
    for name in FAULTS:
        assert open_run(ended["folder"] / name).checkpoint.step >= 2


def test_a_run_goes_on_after_a_process_was_killed(ended: dict[str, Any], server: Any, tmp_path: Path):
    whole = server.start(tmp_path / "whole", 1)
    again = server.start(ended["folder"] / "kill1", 2, training={"save_every": 2}, resume=True)
    assert [*whole.wait(), *again.wait()] == [0, 0, 0], again.said()
    assert losses(ended["folder"] / "kill1") == pytest.approx(losses(tmp_path / "whole"), abs=1e-5)


def test_one_process_with_nan_stops_the_step_of_all_and_its_examples_are_named(server: Any, tmp_path: Path):
    ranks = server.start(tmp_path / "nan", 2, fault={"process": 1, "kind": "nan", "step": 3})
    assert ranks.wait() == [0, 0], ranks.said()
    found = lines(tmp_path / "nan")
    assert [line["step"] for line in found if line["loss"] is None] == [2]
    # the second step has rows 5 to 9; process 1 takes 6 and 8, in the first of its two micro-batches
    assert "step 2: the loss or a gradient is not finite" in ranks.said()
    assert "examples (epoch, document, number): [(0, 6, 0), (0, 8, 0)]" in ranks.said()


def test_processes_that_were_started_for_different_trainings_are_refused(server: Any, tmp_path: Path):
    ranks = server.start(tmp_path / "run", 2, other={"process": 1, "training": {"learning_rate": 0.1}})
    assert ranks.wait() == [2, 2]
    assert "the processes do not agree: training.learning_rate: None in process 0, 0.1 in process 1" in ranks.said()
    assert not (tmp_path / "run").exists()


def test_a_signal_to_one_process_stops_all_at_the_same_step(server: Any, tmp_path: Path):
    ranks = server.start(tmp_path / "run", 2, fault={"process": 1, "kind": "terminate", "step": 3})
    assert ranks.wait() == [143, 143], ranks.said()
    step = open_run(tmp_path / "run").checkpoint.step
    assert step < 6 and [line["step"] for line in lines(tmp_path / "run")] == list(range(1, step + 1))


def test_a_signal_to_one_process_in_a_validation_ends_it_in_all(server: Any, tmp_path: Path):
    fault = {"process": 1, "kind": "validation"}
    whole, ranks = server.start(tmp_path / "whole", 2), server.start(tmp_path / "run", 2, fault=fault)
    assert [*whole.wait(), *ranks.wait()] == [0, 0, 143, 143], ranks.said()
    assert (
        len(lines(tmp_path / "run")) == 3
        and open_run(tmp_path / "run" / "checkpoints" / "4").checkpoint.state["passing"]
    )
    assert server.start(tmp_path / "run", 2, resume=True).wait() == [0, 0]
    one, other = ([line.get("validation/loss") for line in lines(tmp_path / name)] for name in ("whole", "run"))
    assert one == other and one[3] is not None and losses(tmp_path / "whole") == losses(tmp_path / "run")
    states = [open_run(tmp_path / name).checkpoint.state for name in ("whole", "run")]
    assert states[0] == states[1]


def test_a_signal_to_a_process_that_ends_already_does_not_hide_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def leave(watchdog: Watchdog, *rest: Any) -> None:
        watchdog.stop()
        signal.raise_signal(signal.SIGTERM)  # as launchers do once one process has ended

    monkeypatch.setattr(joining_module, "leave", leave)
    with pytest.raises(OSError, match="the disk is gone"), stop_at_once(), joining_module.join(settings(), tmp_path):
        raise OSError("the disk is gone")


class Stuck:
    """A group that cannot be left before this process is ended, as NCCL's where the others come to no exchange."""

    def __init__(self, patch: pytest.MonkeyPatch, several: bool = True, reason: BaseException | None = None) -> None:
        self.ended, self.finished, self.trackers, self.is_main_process = queue.Queue[int](), 0, [self], True
        heart = SimpleNamespace(leave=lambda well: None) if several else None
        self.watchdog: Any = SimpleNamespace(stop=lambda: None, heartbeat=heart)
        patch.setattr(joining_module, "LEAVE_TIMEOUT", 0.0)
        patch.setattr(joining_module, "leave_at_once", self.ended.put)
        patch.setattr(joining_module, "announce_failure", lambda heartbeat, error: self.explain(reason))

    def explain(self, reason: BaseException | None) -> None:
        if reason is not None:
            raise reason

    def finish(self) -> None:
        self.finished += 1

    def end_training(self) -> None:
        assert not self.trackers, "they would be finished again"
        self.status = self.ended.get(timeout=60)


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (RuntimeError("out of memory"), 1, "error: out of memory"),
        (KeyError("x"), 1, "error: KeyError('x')"),
        (ValueError("no such row"), 2, "error: no such row"),
        (Stopped(signal.SIGTERM, "at once"), 143, "error: stopped by SIGTERM at once"),
    ],
)
def test_a_process_that_failed_waits_for_no_group_that_cannot_be_left(
    error: BaseException, status: int, words: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    stuck: Any = Stuck(monkeypatch)
    joining_module.leave(stuck.watchdog, stuck, error)
    assert (stuck.status, stuck.finished, caplog.messages) == (status, 1, [words])


def test_where_another_process_is_the_reason_it_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    stuck: Any = Stuck(monkeypatch, reason=Stopped(signal.SIGINT, "in process 1"))
    with pytest.raises(Stopped):
        joining_module.leave(stuck.watchdog, stuck, RuntimeError("NCCL communicator was aborted"))
    assert stuck.status == 130 and caplog.messages == ["error: stopped by SIGINT in process 1"]
    caplog.clear()
    joining_module.end_stuck(RuntimeError("out of memory"), reports=False)
    assert not caplog.messages


def test_a_process_alone_or_without_an_error_takes_its_time(monkeypatch: pytest.MonkeyPatch):
    begun: list[object] = []
    monkeypatch.setattr(threading.Timer, "start", lambda timer: begun.append(timer))
    for several, error in ((False, RuntimeError("out of memory")), (True, None)):
        stuck: Any = Stuck(monkeypatch, several)
        stuck.ended.put(0)  # it can be left
        joining_module.leave(stuck.watchdog, stuck, error)
    assert not begun


def test_a_process_that_left_is_not_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(joining_module, "leave_at_once", lambda status: pytest.fail("it was ended"))
    with joining_module.exit_if_stuck(RuntimeError("out of memory"), True):
        pass
    timers = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    assert all(timer.finished.is_set() for timer in timers)


def test_a_process_that_ended_before_there_were_heartbeats_is_said_to_have(monkeypatch: pytest.MonkeyPatch):
    """As between two tasks; while the others are waited for, the watchdog counts the seconds."""
    watchdog = Watchdog(10.0)
    by: list[float] = []

    def closed(*given: object) -> None:
        by.append(watchdog.join_by)
        raise RuntimeError("Connection closed by peer")

    monkeypatch.setattr(joining_module, "Heartbeat", closed)
    with pytest.raises(RuntimeError, match=r"but another process has ended; all end \(Connection closed by peer\)"):
        joining_module.start_heartbeat(watchdog, SimpleNamespace(), 60.0)  # type: ignore[arg-type]
    watchdog.stop()
    assert by[0] < math.inf == watchdog.join_by


def test_only_one_process_writes(ended: dict[str, Any]):
    """A second writer would leave a line twice."""
    for name in FAULTS:
        steps = [
            json.loads(line)["step"] for line in (ended["folder"] / name / "metrics.jsonl").read_text().splitlines()
        ]
        assert steps == list(range(1, len(steps) + 1))


def test_the_hash_of_the_source_is_the_same_each_time():
    assert len(source_digest()) == 64 and source_digest() == source_digest.__wrapped__()


def test_source_of_which_any_byte_or_name_differs_has_another_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(start, "__file__", str(tmp_path / "training" / "start.py"))
    found = []
    for name, text in (("a.py", "x = 1"), ("a.py", "x = 2"), ("b.py", "x = 2")):
        (tmp_path / name).write_text(text)
        found.append(source_digest.__wrapped__())
        (tmp_path / name).unlink()
    assert len(set(found)) == 3


def test_models_with_other_weights_have_another_fingerprint():
    model = nn.Linear(2, 2)
    before = fingerprint(model)
    assert fingerprint(model) == before
    with torch.no_grad():
        model.bias[0] += 1
    assert fingerprint(model) != before
