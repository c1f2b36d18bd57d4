"""Whatever can be trained has a learning bar; a fixed sample of them is reached, and a broken model reaches none.

All bars, and all broken models, take a quarter of an hour: `make bars`.
"""

from collections.abc import Iterable

import pytest
from every_bar import PAGE, tasks
from learn import learn
from table import BARS, BROKEN, GOAL, MODEL, Bar
from toys import TOYS

from registered import REGISTERED, SLOTS
from zoo import list_models

UNLEARNED = {  # slots whose variants learn nothing, and what tries them instead
    "format": "tests/data/formats",
    "built-in source": "tests/data/builtin",
    "metric": "tests/metrics",
    "predictor": "tests/inference",
}
TRAINED = [*((slot, name) for slot, name in REGISTERED if slot not in UNLEARNED),
           *((MODEL, name) for name in list_models("*-nano"))]  # fmt: skip
SAMPLE = [("stage", "residual")]  # of a few seconds


def lacking(trained: Iterable[tuple[str, str]], bars: Iterable[Bar]) -> list[str]:
    """A line for each variant that no bar needs."""
    covered = {variant for bar in bars for variant in bar.covers()}
    return [f"{slot} '{name}' has no learning bar: add a line to tests/bars/table.py"
            for slot, name in trained if (slot, name) not in covered]  # fmt: skip


def test_whatever_can_be_trained_has_a_learning_bar():
    found = lacking(TRAINED, BARS)
    assert not found, "\n" + "\n".join(found)


def test_a_variant_without_a_bar_is_named():
    found = lacking([("norm", "rmsnorm"), ("norm", "newnorm")], [bar for bar in BARS if bar.slot == "norm"])
    assert found == ["norm 'newnorm' has no learning bar: add a line to tests/bars/table.py"]


def test_every_slot_learns_or_says_what_tries_it():
    assert set(UNLEARNED) < set(SLOTS)


def test_every_toy_task_is_learned_and_has_a_broken_model():
    assert {bar.toy for bar in BROKEN} == set(TOYS) == {bar.toy for bar in BARS}


@pytest.mark.parametrize("name", TOYS)
def test_no_row_of_a_toy_task_stands_in_both_splits_and_guessing_is_far_from_the_bar(name: str):
    splits = TOYS[name].splits()
    train = {repr(row) for row in splits["train"]}
    assert len(train) == len(splits["train"]) and not train & {repr(row) for row in splits["validation"]}
    assert TOYS[name].guess() < 0.6


def test_the_page_has_every_toy_task():
    assert tasks() in PAGE.read_text("utf-8"), "run: python tests/bars/every_bar.py --write"


def bar_of(slot: str, name: str) -> Bar:
    return next(bar for bar in BARS if (bar.slot, bar.name) == (slot, name))


@pytest.mark.parametrize(("slot", "name"), SAMPLE)
def test_a_fixed_sample_of_the_bars_is_reached(slot: str, name: str):
    found = learn(bar_of(slot, name))
    assert found.share >= GOAL, found


def test_a_model_that_lacks_what_its_task_needs_stays_below_the_bar():
    broken = next(bar for bar in BROKEN if bar.toy == "stripes")
    assert learn(broken).share < GOAL
