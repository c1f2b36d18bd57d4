"""Claims about heart-beats: of several processes that are gone, the first one is named, and it alone."""

import json
import subprocess
import sys
import time
from dataclasses import asdict

import pytest
from torch.distributed import HashStore

from zoo.training.supervision.heartbeat import LEFT, Heart, PeerFailure, describe_self

ENDED = PeerFailure(2, "process 2 was killed")


@pytest.fixture
def gone() -> dict[str, str]:
    """Where a process was that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return {**describe_self(), "pid": str(child.pid)}


@pytest.fixture
def heart(gone: dict[str, str]) -> Heart:
    """Process 0 of three; the other two are gone."""
    heart = Heart.__new__(Heart)  # without the thread and the processes that it waits for
    heart.process, heart.count, heart.timeout = 0, 3, 3600.0
    heart.store, heart.who = HashStore(), [describe_self(), gone, gone]
    heart.beats, heart.gone, heart.failure = [b"", b"", b""], [], None
    heart.answered = time.monotonic()
    heart.heard = [heart.answered] * 3
    for process in range(3):
        heart.store.set(f"beat/{process}", "1")
    return heart


def named(heart: Heart) -> PeerFailure | None:
    return heart.trouble(heart.timeout)


def test_a_process_that_is_gone_was_killed(heart: Heart):
    assert named(heart) is None
    heart.exchange(1)
    found = named(heart)
    assert found is not None and found.process == 1 and found.what.endswith("was killed") and not found.raised


def test_one_that_ended_because_of_another_is_not_blamed(heart: Heart):
    heart.store.set("failed", json.dumps(asdict(ENDED)))  # what process 1 said before it ended
    heart.exchange(1)
    assert named(heart) == ENDED


def test_one_that_had_done_its_work_is_not_missed(heart: Heart):
    for process in (1, 2):
        heart.store.set(f"beat/{process}", LEFT)
    heart.exchange(1)
    assert named(heart) is None


def test_the_first_trouble_that_is_reported_stands(heart: Heart, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(heart, "attempt", lambda work: work())  # without a time limit
    heart.report(ENDED)
    heart.report(PeerFailure(1, "process 1 was killed"))
    heart.tell("no more space")
    heart.exchange(1)
    assert named(heart) == ENDED


def test_one_that_others_gave_up_still_looks_for_what_is_wrong(heart: Heart):
    heart.store.set("failed", json.dumps(asdict(PeerFailure(0, "process 0 was silent for 61 s"))))
    heart.exchange(1)
    found = named(heart)
    assert found is not None and found.process == 1
