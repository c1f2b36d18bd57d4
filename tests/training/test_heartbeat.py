"""Claims about heartbeats: of several processes that are gone, the first one is named, and it alone."""

import json
import subprocess
import sys
import time
from dataclasses import asdict

import pytest
from torch.distributed import HashStore

from zoo.training.supervision.heartbeat import FINISHED, Heartbeat, PeerFailure, describe_self

ENDED = PeerFailure(2, "process 2 was killed")


@pytest.fixture
def gone() -> dict[str, str]:
    """Where a process was that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return {**describe_self(), "pid": str(child.pid)}


@pytest.fixture
def heartbeat(gone: dict[str, str]) -> Heartbeat:
    """Process 0 of three; the other two are gone."""
    heartbeat = Heartbeat.__new__(Heartbeat)  # without the thread and the processes that it waits for
    heartbeat.process, heartbeat.count, heartbeat.timeout = 0, 3, 3600.0
    heartbeat.store, heartbeat.identities = HashStore(), [describe_self(), gone, gone]
    heartbeat.beats, heartbeat.ended, heartbeat.announced = [b"", b"", b""], [], None
    heartbeat.store_answered_at = time.monotonic()
    heartbeat.last_heard = [heartbeat.store_answered_at] * 3
    for process in range(3):
        heartbeat.store.set(f"beat/{process}", "1")
    return heartbeat


def named(heartbeat: Heartbeat) -> PeerFailure | None:
    return heartbeat.find_failure(heartbeat.timeout)


def test_a_process_that_is_gone_was_killed(heartbeat: Heartbeat):
    assert named(heartbeat) is None
    heartbeat.exchange(1)
    found = named(heartbeat)
    assert found is not None and found.process == 1 and found.what.endswith("was killed") and not found.raised


@pytest.mark.parametrize(
    ("failure", "reporter"),
    [(PeerFailure(0, "killed"), 1), (PeerFailure(0, "failed", raised=True), 0), (PeerFailure(2, "killed"), 0)],
)
def test_one_process_reports_a_failure_and_it_is_not_one_that_was_lost(
    heartbeat: Heartbeat, failure: PeerFailure, reporter: int
):
    for heartbeat.process in range(3):
        assert heartbeat.is_reporter(failure) == (heartbeat.process == reporter)


def test_one_that_ended_because_of_another_is_not_blamed(heartbeat: Heartbeat):
    heartbeat.store.set("failed", json.dumps(asdict(ENDED)))  # what process 1 said before it ended
    heartbeat.exchange(1)
    assert named(heartbeat) == ENDED


def test_one_that_had_done_its_work_is_not_missed(heartbeat: Heartbeat):
    for process in (1, 2):
        heartbeat.store.set(f"beat/{process}", FINISHED)
    heartbeat.exchange(1)
    assert named(heartbeat) is None


def test_a_time_in_which_this_process_did_not_run_is_no_silence_of_the_others(heartbeat: Heartbeat):
    heartbeat.store_answered_at -= 7200.0
    heartbeat.last_heard = [heartbeat.store_answered_at] * 3
    assert named(heartbeat) is not None
    heartbeat.shift_clocks(7200.0)
    assert named(heartbeat) is None


def test_the_first_trouble_that_is_reported_stands(heartbeat: Heartbeat, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(heartbeat, "try_on_store", lambda work: work())  # without a time limit
    heartbeat.announce(ENDED)
    heartbeat.announce(PeerFailure(1, "process 1 was killed"))
    heartbeat.announce_own("no more space")
    heartbeat.exchange(1)
    assert named(heartbeat) == ENDED


def test_one_that_others_gave_up_still_looks_for_what_is_wrong(heartbeat: Heartbeat):
    heartbeat.store.set("failed", json.dumps(asdict(PeerFailure(0, "process 0 was silent for 61 s"))))
    heartbeat.exchange(1)
    found = named(heartbeat)
    assert found is not None and found.process == 1
