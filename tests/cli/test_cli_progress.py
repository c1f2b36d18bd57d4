"""Claims about what is said of slow work where nobody looks at a terminal."""

import logging
import os
from collections.abc import Callable

import pytest
from commands import Said

from zoo.cli import progress
from zoo.cli.output import errors
from zoo.cli.progress import Bars


def test_a_slow_evaluation_says_at_its_start_and_every_minute_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, "zoo")
    drawn = Bars(None)
    for seconds, done in ((1000, 0), (1030, 10), (1061, 20), (1119, 35), (1180, 1500)):
        monkeypatch.setattr(progress.time, "monotonic", lambda seconds=seconds: float(seconds))
        drawn.evaluate("validation", "examples", done, 1500)
    assert caplog.messages == [
        "validation: 1,500 examples",
        "validation: 20 of 1,500 examples, about 75 minutes left",
        "validation: 1,500 of 1,500 examples, about 0 minutes left",
    ]


def test_a_step_that_scored_nothing_has_no_loss_to_show():
    Bars(None).step({"step": 1, "steps": 2})


@pytest.mark.parametrize(("terminal", "told", "disabled"), [(True, None, None), (False, None, "1"), (False, "0", "0")])
def test_libraries_draw_bars_on_terminals_alone_unless_they_are_told_otherwise(
    zoo: Callable[..., Said], monkeypatch: pytest.MonkeyPatch, terminal: bool, told: str | None, disabled: str | None
) -> None:
    monkeypatch.setattr(errors, "_force_terminal", terminal)
    names = ("HF_DATASETS_DISABLE_PROGRESS_BARS", "HF_HUB_DISABLE_PROGRESS_BARS")
    for name in names:
        monkeypatch.setenv(name, told or "")
        if told is None:
            monkeypatch.delenv(name)
    assert zoo("show", "no-such-model").status == 2
    assert [os.environ.get(name) for name in names] == [disabled] * 2
