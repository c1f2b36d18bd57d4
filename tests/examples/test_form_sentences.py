from functools import cache

import numpy as np
import pytest

from zoo.data.ids import Lengths, Roles
from zoo.examples.example import ExamplePlan
from zoo.examples.form import Limits, ModelTraits
from zoo.examples.forms.sentences import IS_NEXT, IS_OTHER, Segment, Sentences, draw_other
from zoo.objectives.kinds.next_sentence import NextSentence

LIMITS = Limits(32)
FORM = Sentences(ModelTraits(causal=False, segments=True), False)


def corpus(documents: int = 40, longest: int = 12, seed: int = 0) -> Lengths:
    generator = np.random.default_rng(seed)
    counts = generator.integers(1, 9, size=documents)
    sizes = generator.integers(1, longest, size=counts.sum())
    return Lengths({"text": np.cumsum([0, *sizes])}, sentences=np.cumsum([0, *counts]))


def span(lengths: Lengths, document: int) -> tuple[int, int]:
    borders = lengths.sentence_bounds("text", document)
    return int(borders[0]), int(borders[-1])


def all_plans(lengths: Lengths, epochs: int = 20, limits: Limits = LIMITS) -> list[ExamplePlan]:
    return [p for e in range(epochs) for d in range(lengths.documents) for p in FORM.plan(lengths, d, e, 3, limits)]


@cache
def planned() -> list[ExamplePlan]:
    """The pairs of a corpus in 20 epochs, which several tests look at."""
    return all_plans(corpus())


def test_half_of_the_pairs_are_true():
    labels = np.array([plan.label for plan in planned()])
    assert set(labels) == {IS_NEXT, IS_OTHER}
    assert abs(labels.mean() - 0.5) < 4 * 0.5 / len(labels) ** 0.5  # four standard deviations


def test_a_drawn_second_part_is_never_of_the_same_document():
    lengths = corpus(documents=3)
    for plan in all_plans(lengths):
        start, stop = span(lengths, plan.document)
        inside = start <= plan.pieces[1].start < stop
        assert inside == (plan.label == IS_NEXT)


def test_a_true_second_part_follows_the_first():
    for plan in planned():
        assert plan.label == IS_OTHER or plan.pieces[1].start == plan.pieces[0].stop


def test_no_text_is_lost_but_a_single_last_token_which_is_counted():
    lengths = corpus(longest=60)  # longer sentences than a pair holds
    for document in range(lengths.documents):
        plans = FORM.plan(lengths, document, 0, 0, LIMITS)
        own = [piece for plan in plans for piece in plan.pieces[: 1 + (plan.label == IS_NEXT)]]
        start, stop = span(lengths, document)
        read = [place for piece in own for place in range(piece.start, piece.stop)]
        lost = sum(plan.truncated for plan in plans)
        assert read == list(range(start, stop - lost)) and lost <= 1 or stop - start == 1


def test_pairs_fit_and_have_two_parts():
    for plan in all_plans(corpus(longest=60), epochs=3):
        assert plan.length == sum(piece.length for piece in plan.pieces) + 3 <= LIMITS.longest
        assert all(piece.length >= 1 for piece in plan.pieces)


def test_the_shortest_pair_has_a_token_of_each_part():
    shortest = Limits(5)
    FORM.check(shortest)
    assert {plan.length for plan in all_plans(corpus(documents=5), 2, shortest)} == {5}
    with pytest.raises(ValueError, match="longest: 4 is too short for an example; it must be at least 5"):
        FORM.check(Limits(4))


@pytest.mark.parametrize("longest", [12, 28])  # the second: many a sentence does not fit behind the first part
def test_neither_length_nor_borders_tell_drawn_parts_from_true_ones(longest: int):
    lengths = corpus(documents=200, longest=longest)
    borders = set(lengths.offsets["text"].tolist())
    plans = all_plans(lengths, epochs=5)
    for measure in (
        lambda plan: plan.pieces[1].length,
        lambda plan: plan.pieces[1].start in borders,
        lambda plan: plan.pieces[1].stop in borders,
    ):
        true, drawn = (np.mean([measure(p) for p in plans if p.label == label]) for label in (IS_NEXT, IS_OTHER))
        assert drawn == pytest.approx(true, rel=0.1)


def test_a_drawn_part_that_ends_with_a_sentence_begins_with_one_that_fits():
    lengths = Lengths({"text": np.array([0, 4, 34, 37])}, sentences=np.array([0, 1, 3]))
    like = Segment(2, 4, begins_inside=False, continues=False)
    drawn = {draw_other(lengths, 0, like, 5, np.random.default_rng(seed)) for seed in range(20)}
    assert {(piece.start, piece.stop) for piece in drawn} == {(34, 37)}


def test_a_document_of_one_sentence_is_split_into_a_pair():
    lengths = Lengths({"text": np.array([0, 9, 18])}, sentences=np.array([0, 1, 2]))
    for plan in all_plans(lengths):
        assert 0 < plan.pieces[0].length < 9


def test_the_layout_is_a_pair_with_segments():
    roles = Roles(vocab_size=100, pad=0, unk=1, start=2, end=3, separator=4, extract=5, mask=6)
    plan = FORM.plan(corpus(), 0, 0, 0, LIMITS)[0]
    example = FORM.build(plan, lambda piece: np.full(piece.length, 9, dtype=np.int64), roles)
    a, b = (piece.length for piece in plan.pieces)
    assert example.tokens.tolist() == [2, *[9] * a, 4, *[9] * b, 4]
    assert example.segments is not None and example.segments.tolist() == [0] * (a + 2) + [1] * (b + 1)
    assert example.label == plan.label


def test_a_single_document_is_refused_unless_order_is_told():
    alone, two = (Lengths({"text": np.array([0, 4, 9])}, sentences=np.array(of)) for of in ([0, 2], [0, 1, 2]))
    found = NextSentence().obstacle_in(alone, LIMITS)
    assert found is not None and found.document == 0
    assert found.reason.startswith("this is the only document, and half of next_sentence's pairs take their second")
    assert NextSentence().obstacle_in(two, LIMITS) is None
    assert NextSentence(order=True).obstacle_in(alone, LIMITS) is None


ORDER = Sentences(ModelTraits(causal=False, segments=True), False, order=True)


def ordered(lengths: Lengths, epoch: int = 0) -> list[ExamplePlan]:
    return [plan for d in range(lengths.documents) for plan in ORDER.plan(lengths, d, epoch, 3, LIMITS)]


def test_half_of_the_pairs_of_sentence_order_are_exchanged():
    labels = np.array([plan.label for epoch in range(20) for plan in ordered(corpus(), epoch)])
    assert abs(labels.mean() - 0.5) < 4 * 0.5 / len(labels) ** 0.5


def test_an_exchanged_pair_is_one_stretch_of_its_document():
    for plan in ordered(corpus(longest=60)):
        first, second = plan.pieces if plan.label == IS_NEXT else plan.pieces[::-1]
        assert first.stop == second.start


def test_no_cut_sentence_tells_the_order():
    lengths = corpus()
    for plan in ordered(lengths):
        borders = set(lengths.sentence_bounds("text", plan.document).tolist())
        inside = [border for border in borders if plan.pieces[0].start < border < plan.pieces[0].stop]
        whole = all({piece.start, piece.stop} <= borders for piece in plan.pieces)
        assert whole or not inside  # a sentence that stands alone is split
        assert plan.length <= LIMITS.longest


def test_sentence_order_needs_one_document_and_loses_nothing():
    lengths = corpus(documents=1, longest=60)
    places = [place for plan in ordered(lengths) for piece in plan.pieces for place in range(piece.start, piece.stop)]
    start, stop = span(lengths, 0)
    assert sorted(places) == list(range(start, start + len(places))) and stop - start - len(places) <= 1
