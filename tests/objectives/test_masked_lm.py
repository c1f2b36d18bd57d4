import re

import numpy as np
import pytest

from zoo.data.ids import Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.randomness import Purpose, Randomness
from zoo.objectives.kinds.masked_lm import MaskedLM
from zoo.objectives.mixture import Mixture

CONTINUES = np.zeros(1000, dtype=bool)
CONTINUES[500:] = True
ROLES = Roles(1000, pad=0, unk=1, start=2, end=3, separator=4, extract=5, mask=6, continues=CONTINUES)


def example_of(text: list[int]) -> Example:
    tokens = np.array([2, *text, 4], dtype=np.int64)
    ordinary = np.array([False, *[True] * len(text), False])
    return Example(tokens, ordinary, np.full(len(tokens), -1, dtype=np.int64))


def masked(objective: MaskedLM, text: list[int], seed: int = 0) -> Example:
    example = example_of(text)
    objective.annotate(example, Randomness(Purpose.EXAMPLE, seed), ROLES)
    return example


@pytest.mark.parametrize("n", [0, 1, 3, 10, 11, 40, 101])
def test_the_number_of_positions_is_the_share_rounded_and_at_least_one(n: int):
    example = masked(MaskedLM(), list(range(7, 7 + n)))
    places = example.places["masked_lm"]
    assert len(places) == len(set(places.tolist())) == min(n, max(1, round(0.15 * n)))
    assert example.is_text[places].all()
    assert example.targets["masked_lm"].tolist() == (places + 6).tolist(), "targets are the tokens before masking"


def test_of_the_positions_80_percent_are_masked_10_random_10_kept():
    n, share = 40_000, 0.5
    text = [7] * n
    example = masked(MaskedLM(share=share), text)
    shown = example.tokens[example.places["masked_lm"]]
    count = len(shown)
    found = [(shown == 6).sum(), ((shown != 6) & (shown != 7)).sum(), (shown == 7).sum()]
    for got, expected in zip(found, [0.8, 0.1, 0.1], strict=True):
        assert abs(got - expected * count) < 5 * (expected * (1 - expected) * count) ** 0.5  # five standard deviations
    untouched = np.setdiff1d(np.flatnonzero(example.is_text), example.places["masked_lm"])
    assert (example.tokens[untouched] == 7).all()


def test_random_tokens_are_never_role_tokens():
    example = masked(MaskedLM(share=1.0), [7] * 20_000)
    shown = example.tokens[example.places["masked_lm"]]
    others = np.unique(shown[shown != 6])
    assert others.min() == 7 and others.max() == 999 and len(others) > 700


def test_masking_is_a_function_of_the_generator():
    same = [masked(MaskedLM(), list(range(7, 60)), seed=1).tokens.tolist() for _ in range(2)]
    assert same[0] == same[1] != masked(MaskedLM(), list(range(7, 60)), seed=2).tokens.tolist()


def test_whole_words_are_chosen_or_left_together_and_never_more_than_the_share():
    text = [10, 510, 20, 30, 530, 531, 40, 41, 42, 43] * 4
    words = np.cumsum(~CONTINUES[text])
    for seed in range(20):
        example = masked(MaskedLM(whole_word=True), text, seed)
        chosen = np.zeros(len(text), dtype=bool)
        chosen[example.places["masked_lm"] - 1] = True
        assert all(len(set(chosen[words == word])) == 1 for word in set(words))
        assert chosen.sum() == round(0.15 * 40)


def test_a_word_ends_where_the_template_stands_between():
    example = Example(np.array([2, 10, 4, 510, 4]), np.array([False, True, False, True, False]), np.full(5, -1))
    MaskedLM(whole_word=True).annotate(example, Randomness(Purpose.EXAMPLE, 0), ROLES)
    assert len(example.places["masked_lm"]) == 1


def test_a_document_whose_words_are_all_too_long_has_no_positions():
    example = masked(MaskedLM(whole_word=True), [10, 510, 511])
    assert example.places["masked_lm"].tolist() == [] and example.places["masked_lm"].dtype == np.int64


def test_an_example_never_scores_more_than_planned_and_a_row_holds_the_share():
    objective = MaskedLM()
    assert objective.scored(ExamplePlan(0, 0, 22, pieces=())) == 0
    capacity = objective.capacity(128)
    assert capacity is not None and objective.count_chosen(126) <= capacity < 0.2 * 128


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"share": 1.5}, "masked_lm: share must be above 0 and at most 1, got 1.5"),
        ({"share": 0.0}, "masked_lm: share must be above 0 and at most 1, got 0.0"),
        ({"masked": 0.9, "random": 0.2}, "must be at least 0 and at most 1 together, got 0.9 and 0.2"),
        ({"masked": -0.1}, "must be at least 0 and at most 1 together, got -0.1 and 0.1"),
        ({"random": -0.1}, "must be at least 0 and at most 1 together, got 0.8 and -0.1"),
        ({"weight": -1.0}, "weight must be a finite number of at least 0, got -1"),
    ],
)
def test_bad_options_are_refused(options: dict[str, float], said: str):
    with pytest.raises(ValueError, match=re.escape(said)):
        Mixture.parse({"masked_lm": options})


def test_whole_words_need_to_know_where_words_begin():
    with pytest.raises(ValueError, match="whole_word needs a tokenizer that knows where words begin"):
        blind = Roles(1000, 0, 1, 2, 3, 4, 5, 6)
        MaskedLM(whole_word=True).annotate(example_of([7, 8]), Randomness(Purpose.EXAMPLE, 0), blind)
