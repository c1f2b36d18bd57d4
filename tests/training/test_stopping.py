"""Claims about signals: the first is noted, the second of its kind stops at once, and handlers are given back."""

import signal

import pytest

from zoo.training.stopping import Stopped, catch_signals, first_of


def test_the_first_signal_is_noted_and_the_second_stops_at_once():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), catch_signals() as signals:
        signal.raise_signal(signal.SIGINT)
        assert first_of(signals.flags()) == signal.SIGINT
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_signal_of_the_other_kind_is_noted_too():
    with catch_signals() as signals:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert signals.received == {signal.SIGINT, signal.SIGTERM}


def test_no_signal_is_none():
    assert first_of([0.0, 0.0]) is None


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_being_stopped_has_the_exit_status_of_its_signal(number: int, status: int):
    assert Stopped(number, 7).status == status
    assert "after step 7; the state is saved, --resume continues" in str(Stopped(number, 7))
