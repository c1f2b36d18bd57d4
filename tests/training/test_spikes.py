"""Claims about loss spikes: reported once the loss is known, never for noise, and a lasting jump becomes usual."""

import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import TinyModel, lines, settings, train_tiny

from zoo.training.logbook import note_spike
from zoo.training.meter import Tally
from zoo.training.spikes import WINDOW, RunningLoss
from zoo.training.state import State


def usual(*losses: float) -> list[bool]:
    """Which of the losses are spikes."""
    found = RunningLoss()
    return [found.update(loss) is not None for loss in losses]


def test_a_jump_is_a_spike_only_once_the_loss_is_known():
    noise = (3 + 0.1 * np.random.default_rng(0).standard_normal(WINDOW)).tolist()
    assert usual(*noise, 5.0)[-1] and not any(usual(*noise[:-1], 5.0))


@pytest.mark.parametrize(
    ("mean", "deviation", "least"),
    [(1.0, 0.5, 3.0), (100.0, 0.5, 10.0), (-100.0, 0.5, 10.0)],  # six deviations, or a tenth of the mean
)
def test_a_spike_is_above_six_deviations_and_above_a_tenth_of_the_mean(mean: float, deviation: float, least: float):
    calm = [mean - deviation, mean + deviation] * (WINDOW // 2)
    assert not usual(*calm, mean + 0.99 * least)[-1] and usual(*calm, mean + 1.01 * least)[-1]


def test_noise_and_a_falling_loss_are_no_spikes():
    drawn = np.random.default_rng(1).standard_normal(500)
    assert not any(usual(*(5 * np.exp(-np.arange(500) / 100) + 0.2 * drawn).tolist()))


def test_a_small_step_up_is_no_spike_however_calm_it_was():
    assert not any(usual(*[2.0] * 100, 2.1))


def test_a_loss_that_stays_where_it_jumped_to_becomes_usual():
    found = usual(*[2.0] * 100, *[3.0] * 100)
    assert found[100] and not any(found[110:])


def test_a_step_that_scored_nothing_makes_no_loss_usual():
    tally, state = Tally(1, {"causal_lm": torch.ones(())}, {}), State()
    tally.skipped, tally.line = False, {"step": 1}
    assert note_spike(tally, state) == {} and state.usual.seen == 0


def test_a_spike_is_in_the_log_line_and_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    class Jumping(TinyModel):
        calls = 0

        def forward(self, tokens: torch.Tensor, documents: torch.Tensor):
            said = super().forward(tokens, documents)
            self.calls += 1
            if self.calls == WINDOW + 5:
                said.scores["language"].states = said.scores["language"].states * 40
            return said

    caplog.set_level(logging.WARNING)
    _, state = train_tiny(tmp_path, settings(steps=WINDOW + 5, learning_rate=1e-4, save_every=0), Jumping())
    spikes = [line["step"] for line in lines(tmp_path) if "spike" in line]
    assert spikes == [WINDOW + 5] and lines(tmp_path)[-1]["spike"] > 6 and state.usual.seen == WINDOW + 5
    assert f"step {WINDOW + 5}: the loss jumped to" in caplog.text
