"""Claims about signals: the first is noted, the second of its kind stops at once, and handlers are given back."""

import os
import resource
import signal
import socket
import subprocess
import sys
import threading

import pytest

from patience import HANGS
from zoo.training.supervision.stopping import (
    FORWARD_WINDOW,
    Signals,
    Stopped,
    catch_signals,
    first_of,
    force_exit,
    raise_if_stopped,
    stop_at_once,
)


def test_the_first_signal_is_noted_and_the_second_stops_at_once():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Stopped, match="SIGINT at once; --resume continues"), catch_signals() as signals:
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
    for signals, expected in ((alone, [True, True, True]), (launched, [True, False, True])):
        sent = signal.SIGINT, signal.SIGINT, signal.SIGTERM
        assert [signals.note(number) for number in sent] == expected and signals.count == sum(expected)
    launched.received[signal.SIGINT] -= FORWARD_WINDOW  # seconds ago: a launcher does not take that long
    assert launched.note(signal.SIGINT)


@pytest.mark.usefixtures("heeded_hangup")
def test_a_terminal_that_closes_is_one_signal_though_its_shell_hands_it_on_and_none_under_nohup():
    with catch_signals() as signals:
        for _ in range(2):
            signal.raise_signal(signal.SIGHUP)
    assert first_of(signals.flags()) == signal.SIGHUP and signals.count == 1
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with catch_signals() as signals:
            signal.raise_signal(signal.SIGHUP)
        assert first_of(signals.flags()) is None
    finally:
        signal.signal(signal.SIGHUP, before)


STUCK = """
import ctypes, threading
from zoo.training.supervision import stopping
stopping.FORCE_AFTER = {1}
library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
def report():
    while mutex[0] != b"\\2":  # until somebody waits for it
        pass
    print("stuck", flush=True)
with stopping.{0}():
    library.pthread_mutex_lock(mutex)
    threading.Thread(target=report, daemon=True).start()
    library.pthread_mutex_lock(mutex)  # waits for ever, and no signal interrupts it
"""


@pytest.mark.parametrize(
    ("phase", "signals", "patience"), [("catch_signals", 2, 0.2), ("stop_at_once", 1, 0.2), ("stop_at_once", 2, HANGS)]
)
def test_a_process_whose_main_thread_is_stuck_ends_too(phase: str, signals: int, patience: float):
    program = [sys.executable, "-c", STUCK.format(phase, patience)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "stuck\n"
        sent = (signal.SIGINT, signal.SIGTERM)[:signals]
        for number in sent:
            process.send_signal(number)
        assert process.wait(timeout=HANGS) in [128 + number for number in sent], "the last one's, whichever that was"


TIDYING = """
import time
from zoo.training.supervision import stopping
stopping.FORCE_AFTER = {}
with stopping.stop_at_once():
    try:
        print("ready", flush=True)
        time.sleep(3600)
    except stopping.Stopped:
        print("stopping", flush=True)
        time.sleep({})
        print("tidied up", flush=True)
"""


@pytest.mark.parametrize(
    ("patience", "seconds", "left", "status"), [(1.0, 2, "tidied up\n", 0), (HANGS, 3600, "", 143)]
)
def test_what_tidies_up_has_its_time_and_a_second_signal_ends_it(patience: float, seconds: int, left: str, status: int):
    program = [sys.executable, "-c", TIDYING.format(patience, seconds)]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "stopping\n"
    if status:
        process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=HANGS)
    assert (out, process.returncode) == (left, status)


IGNORED = """
import os, signal
from zoo.training.supervision.stopping import stop_at_once
class Closed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
with stop_at_once():
    Closed()
    print("goes on", flush=True)
"""


def test_a_signal_where_python_ignores_exceptions_ends_the_process():
    done = subprocess.run([sys.executable, "-c", IGNORED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "error: stopped by SIGTERM\n")


@pytest.mark.usefixtures("heeded_hangup")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_what_has_nothing_to_save_ends_with_the_status_of_its_signal(number: signal.Signals, status: int):
    before = signal.getsignal(number)
    with pytest.raises(Stopped) as stopped, stop_at_once():
        signal.raise_signal(number)
    assert (str(stopped.value), stopped.value.status) == (f"stopped by {number.name}", status)
    assert not stopped.value.saved and signal.getsignal(number) is before


def test_no_library_takes_being_stopped_for_its_own_error():
    with pytest.raises(Stopped), stop_at_once():
        try:
            signal.raise_signal(signal.SIGTERM)
        except Exception:
            raise AssertionError("an optional import would have been given up") from None


def test_a_stop_that_a_library_swallows_is_obeyed_at_the_next_raise_if_stopped():
    for number in (signal.SIGINT, signal.SIGTERM):
        with pytest.raises(Stopped, match=number.name), stop_at_once():
            try:
                signal.raise_signal(number)
            except:  # noqa: E722 -- as libraries write it
                pass
            with pytest.raises(Stopped, match=number.name):
                raise_if_stopped()
            with catch_signals():
                raise AssertionError("a training would have begun")
    raise_if_stopped()  # what was stopped does not stop the next


def test_no_signal_is_none():
    assert first_of([0.0, 0.0, 0.0]) is None


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2048, reason="no file may have such a number")
def test_a_process_with_many_open_files_hears_signals_too():
    woken, waker = socket.socketpair()
    os.dup2(woken.fileno(), 2000)
    with woken, socket.socket(fileno=2000) as high:
        waker.close()
        force_exit(high, Signals(), 1, threading.Event())
