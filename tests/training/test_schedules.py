"""Claims about schedules: each is its formula, and all rise to the peak and end where they say."""

import math

import pytest

from zoo.training.schedules import schedules

STEPS, WARMUP = 50, 10
SHAPES = [name for name in schedules.names() if name != "noam"]


def rates(choice: object, peak: float = 2.0, warmup: int = WARMUP) -> list[float]:
    schedule = schedules.build(choice, peak, STEPS, warmup)
    return [schedule.rate(update) for update in range(1, STEPS + 1)]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("warmup", [WARMUP, 45])  # which ends before wsd goes down, and after
def test_the_warmup_is_a_straight_line_to_the_peak(name: str, warmup: int):
    assert rates(name, warmup=warmup)[:warmup] == pytest.approx([2.0 * u / warmup for u in range(1, warmup + 1)])


@pytest.mark.parametrize("name", SHAPES)
def test_no_warmup_begins_near_the_peak(name: str):
    found = rates(name, warmup=0)
    assert max(found) <= 2.0 and found[0] == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("name", SHAPES)
def test_a_warmup_beyond_the_run_only_rises(name: str):
    assert rates(name, warmup=100) == pytest.approx([2.0 * u / 100 for u in range(1, STEPS + 1)])


@pytest.mark.parametrize(("name", "end"), [("linear", 0.0), ("cosine", 0.2), ("wsd", 0.0), ("constant", 2.0)])
def test_the_last_update_is_at_the_floor(name: str, end: float):
    assert rates(name)[-1] == pytest.approx(end)


@pytest.mark.parametrize("name", SHAPES)
def test_a_run_of_one_update_has_the_peak(name: str):
    assert schedules.build(name, 2.0, 1, 0).rate(1) == 2.0


def test_cosine_is_half_a_wave():
    expected = [0.2 + 1.8 * (1 + math.cos(math.pi * (u - WARMUP) / (STEPS - WARMUP))) / 2 for u in range(11, 51)]
    assert rates("cosine")[WARMUP:] == pytest.approx(expected)


def test_linear_goes_down_by_the_same_amount():
    falls = [a - b for a, b in zip(rates("linear")[WARMUP:], rates("linear")[WARMUP + 1 :], strict=False)]
    assert falls == pytest.approx([2.0 / (STEPS - WARMUP)] * len(falls))


def test_wsd_without_a_decay_stays_at_the_peak():
    assert rates({"name": "wsd", "decay": 0})[WARMUP:] == rates("constant")[WARMUP:]


def test_wsd_stays_at_the_peak_until_its_last_fifth():
    found = rates("wsd")
    assert found[WARMUP - 1 : 40] == [2.0] * 31
    assert found[40:] == pytest.approx([2.0 * (50 - u) / 10 for u in range(41, 51)])


@pytest.mark.parametrize("decay", [0.001, 1e-320])
def test_wsd_that_decays_in_less_than_a_step_does_so_in_the_last_one(decay: float):
    assert rates({"name": "wsd", "decay": decay})[WARMUP:] == [2.0] * 39 + [0.0]


@pytest.mark.parametrize(("name", "lowered"), [("linear", 40), ("wsd", 10)])
def test_a_floor_raises_the_end_of_a_straight_line_and_all_of_it_in_proportion(name: str, lowered: int):
    expected = [2.0 * (0.3 + 0.7 * (STEPS - u) / lowered) for u in range(STEPS - lowered + 1, STEPS + 1)]
    assert rates({"name": name, "floor": 0.3})[-lowered:] == pytest.approx(expected)


@pytest.mark.parametrize("warmup", [WARMUP, 0])
def test_noam_is_the_formula_of_the_paper(warmup: int):
    """Without a warm-up, that of one step."""
    expected = [3.0 * 16**-0.5 * min(u**-0.5, u * (warmup or 1) ** -1.5) for u in range(1, STEPS + 1)]
    assert rates({"name": "noam", "d_model": 16}, peak=3.0, warmup=warmup) == pytest.approx(expected)


def test_inverse_sqrt_is_noam_said_by_its_peak():
    peak = 16**-0.5 * WARMUP**-0.5
    assert rates("inverse_sqrt", peak) == pytest.approx(rates({"name": "noam", "d_model": 16}, peak=1.0))


@pytest.mark.parametrize("width", [None, 0])
def test_noam_without_a_width_is_refused(width: int | None):
    with pytest.raises(ValueError, match=f"schedule.d_model: noam needs the model's width, got {width}"):
        schedules.build({"name": "noam", "d_model": width}, 1.0, STEPS, WARMUP)


@pytest.mark.parametrize(("name", "option"), [("wsd", "decay"), ("wsd", "floor"), ("linear", "floor")])
def test_a_share_above_one_is_refused(name: str, option: str):
    with pytest.raises(ValueError, match=f"schedule.{option}: must be from 0 to 1, got 1.5"):
        schedules.build({"name": name, option: 1.5}, 1.0, STEPS, WARMUP)
    assert rates({"name": name, option: 1.0})[WARMUP] <= 2.0
