"""Claims about signals: the first is noted, the second of its kind stops at once, and handlers are given back."""

import signal
import subprocess
import sys
import time

import pytest

from zoo.training.stopping import Signals, Stopped, catch_signals, first_of, stop_on_sigterm


def test_the_first_signal_is_noted_and_the_second_stops_at_once():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Stopped, match="SIGINT at once; what was saved stands"), catch_signals() as signals:
        signal.raise_signal(signal.SIGINT)
        assert first_of(signals.flags()) == signal.SIGINT
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_signal_of_the_other_kind_stops_too():
    with pytest.raises(Stopped), catch_signals():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)


def test_what_a_launcher_hands_on_is_no_second_signal():
    alone, launched = Signals(), Signals(launched=True)
    assert [alone.note(signal.SIGINT), alone.note(signal.SIGINT)] == [False, True]
    assert [launched.note(signal.SIGINT), launched.note(signal.SIGINT), launched.note(signal.SIGTERM)] == [
        False,
        False,
        True,
    ]


STUCK = """
import ctypes
from zoo.training.stopping import catch_signals
library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
with catch_signals():
    print("ready", flush=True)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)  # waits for ever, and no signal interrupts it
"""


def test_a_second_signal_ends_a_process_whose_main_thread_is_stuck():
    process = subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for _ in range(2):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
    assert process.wait(timeout=30) == 143


def test_sigterm_before_the_first_step_is_an_exception_too():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Stopped, match="SIGTERM at once") as stopped, stop_on_sigterm():
        signal.raise_signal(signal.SIGTERM)
    assert stopped.value.status == 143 and signal.getsignal(signal.SIGTERM) is before


def test_no_signal_is_none():
    assert first_of([0.0, 0.0]) is None


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_being_stopped_has_the_exit_status_of_its_signal(number: int, status: int):
    assert Stopped(number, 7).status == status
    assert "after step 7; the state is saved, --resume continues" in str(Stopped(number, 7))
