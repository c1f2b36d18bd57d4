"""Claims about the watchdog: silence ends a process, signs of life keep it, and a pause of all is no silence."""

import subprocess
import sys
import time
from typing import Any

import pytest
import torch
from torch import nn

from zoo.training import watchdog as module
from zoo.training.heartbeat import Trouble, describe_self, life
from zoo.training.judging import telling
from zoo.training.watchdog import Watchdog


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the watchdog said when it ended the process, which it does not here."""
    said: list[str] = []

    class Ended(Watchdog):
        def end_hanging(self, seconds: float) -> None:
            said.append("hangs")
            self.over.set()

    monkeypatch.setattr(module, "Watchdog", Ended)
    return said


def test_nothing_happens_before_the_first_sign_of_life(ended: list[str]):
    watchdog = module.Watchdog(0.1)
    time.sleep(0.4)
    watchdog.stop()
    assert not ended


def test_silence_after_a_sign_of_life_is_a_hang(ended: list[str]):
    watchdog = module.Watchdog(0.1)
    watchdog.alive()
    watchdog.over.wait(60)
    watchdog.stop()
    assert ended == ["hangs"]


@pytest.mark.parametrize(("seconds", "joined", "said"), [(0.2, 0.0, ""), (5.0, 0.6, "waiting"), (0.2, 60.0, "not all")])
def test_processes_have_some_minutes_to_find_each_other(
    seconds: float, joined: float, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(module, "JOIN", seconds)
    monkeypatch.setattr(module, "SOON", seconds / 20)
    left: list[int] = []
    watchdog = module.Watchdog(0.2)  # looks every 0.05 s
    monkeypatch.setattr(module, "leave_at_once", lambda status: (left.append(status), watchdog.over.set()))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with watchdog.joining():
        watchdog.over.wait(joined)
    watchdog.over.wait(0.5)
    watchdog.stop()
    assert left == ([2] if said == "not all" else [])
    assert said in caplog.text and ("WORLD_SIZE is 2, this is process" in caplog.text) == bool(said)


def test_a_hung_process_ends_with_status_1_and_a_dump_of_its_stacks():
    code = "import time; from zoo.training.watchdog import Watchdog; Watchdog(0.2).alive(); time.sleep(100)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90)
    assert done.returncode == 1
    assert "nothing moved for" in done.stderr and "(training.hang_timeout)" in done.stderr
    assert 'File "<string>", line 1 in <module>' in done.stderr


class Deaf:
    """A heart that hears of no one any more since a given time."""

    def __init__(self) -> None:
        self.timeout, self.answered = 1.0, 0.0
        self.heard = [0.0, 0.0]


def test_a_process_that_did_not_run_forgives_the_others_the_time():
    watchdog = Watchdog(100)
    watchdog.stop()
    deaf: Any = Deaf()
    watchdog.heart = deaf
    watchdog.forgive(7.0)
    assert (deaf.answered, deaf.heard) == (7.0, [7.0, 7.0])


def test_a_living_process_is_told_from_one_that_is_gone():
    child = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE)
    assert life(describe_self()["pid"]) == "R"
    child.wait()
    assert life(str(child.pid)) is None
    assert Trouble(1, "was killed") != Trouble(2, "was killed")


def test_validation_gives_signs_of_life_in_whatever_way_a_model_is_called():
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU()))
    signs: list[int] = []
    with telling(model, lambda: signs.append(1)):
        model(torch.zeros(1, 2))
        model[0](torch.zeros(1, 2))
    model(torch.zeros(1, 2))
    assert len(signs) == 3
