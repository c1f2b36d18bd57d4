import gc
import time
import weakref

import numpy as np
import pytest

from zoo.batches import packing
from zoo.batches.packing import OrderedKinds, RowShape, ScaledKinds, are_ordered, fill_rows, pack
from zoo.data.ids import Lengths, Piece
from zoo.examples.example import ExamplePlan
from zoo.examples.form import Limits, ModelTraits
from zoo.objectives.mixture import Mixture

LANGUAGE = Mixture.parse("causal_lm")


def plans_of(lengths: list[int], sources: list[int] | None = None) -> list[ExamplePlan]:
    sources = sources or [0] * len(lengths)
    return [
        ExamplePlan(i, 0, n, s, (Piece("text", 0, n),)) for i, (n, s) in enumerate(zip(lengths, sources, strict=True))
    ]


def draw(mean: float, spread: float, count: int, most: int, seed: int) -> list[int]:
    sizes = np.random.default_rng(seed).lognormal(mean, spread, count)
    return [int(n) for n in np.clip(sizes, 4, most)]


def test_an_example_is_as_long_as_a_row_unless_its_shape_says_less():
    assert RowShape(9, 7).limits == Limits(9, 7, 9)
    assert RowShape(9, 7, longest=5, longest_source=4).limits == Limits(5, 4, 9)


def test_positions_around_rows_are_those_of_the_fullest_in_steps_and_no_more_than_a_row_has():
    rows = [plans_of([9], [3]), plans_of([9, 8, 7], [1, 2, 30]), plans_of([2], [1])]
    assert RowShape(60, 50).needed_shape(rows) == (32, 48)
    assert RowShape(30, 20).needed_shape(rows) == (30, 20)
    assert RowShape(60, 50).needed_shape(rows[2:]) == (16, 16) and RowShape(60, 50).needed_shape([]) == (0, 0)


def test_every_plan_is_in_one_row_and_no_row_is_over_full():
    plans = plans_of(draw(3.0, 0.6, 500, 60, 0))
    rows = pack(plans, RowShape(64), LANGUAGE)
    assert sorted(plan.document for row in rows for plan in row) == list(range(500))
    assert all(sum(plan.length for plan in row) <= 64 for row in rows)


def test_the_longest_that_fits_comes_next():
    assert fill_rows(np.array([[3], [5], [2], [4]]), [7], 1) == [[1, 2], [3, 0]]


def test_of_two_sizes_the_item_comes_next_that_takes_the_largest_share_of_a_row():
    assert fill_rows(np.array([[5, 2], [3, 8]]), [10, 20], 2) == [[1, 0]]  # 3/10 + 8/20 is more than 5/10 + 2/20
    assert fill_rows(np.array([[6, 2], [3, 7]]), [10, 20], 2) == [[0, 1]]  # 3/10 + 7/20 is less than 6/10 + 2/20


def test_rows_need_not_get_full_in_sizes_that_are_not_counted():
    assert fill_rows(np.array([[4, 0, 3], [5, 0, 1]]), [10, 0, 4], 2) == [[1, 0]]


def test_what_packed_sizes_that_compete_is_freed_at_once():
    """Each window has its own, and Python's collector may not come by for long."""
    kinds = ScaledKinds(np.array([[1, 2], [2, 1]]), [4, 4], 2)
    assert kinds.fill_row([1, 1]) == [0, 1]
    left = weakref.ref(kinds)
    gc.disable()
    try:
        del kinds
        assert left() is None
    finally:
        gc.enable()


def test_products_of_kinds_that_are_kept_are_few(monkeypatch: pytest.MonkeyPatch):
    sizes = np.random.default_rng(0).integers(1, 30, (200, 2))
    expected = fill_rows(sizes, [60, 50], 2)
    monkeypatch.setattr(packing, "CACHED_SCORES", 600)
    assert fill_rows(sizes, [60, 50], 2) == expected
    kinds = ScaledKinds(np.unique(sizes, axis=0), [60, 50], 2)
    every = [kinds.first, *(size for _, size in kinds.others)]
    worths = [[size[places].tolist() for places in range(50)] for size in every]
    assert sum(size.table.size for size in every) <= 600 and all(len(size) < 50 for size in every)
    monkeypatch.undo()
    more = ScaledKinds(np.unique(sizes, axis=0), [60, 50], 2)
    assert worths == [[size[places].tolist() for places in range(50)] for size in (more.first, more.others[0][1])]


def test_a_kind_that_is_gone_fits_nowhere(monkeypatch: pytest.MonkeyPatch):
    """Whether its worth was computed before or comes later."""
    for cached in (0, 3 * 3 * 2, packing.CACHED_SCORES):
        monkeypatch.setattr(packing, "CACHED_SCORES", cached)
        kinds = ScaledKinds(np.array([[1, 2], [2, 1], [3, 3]]), [9, 9], 2)
        assert kinds.fill_row([9, 9, 9]) == [2, 2, 2]
        kinds.drop(2)
        kinds.drop(2)
        assert kinds.fill_row([9, 9, 0]) == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(("share", "most"), [(0.0, [64, 0, 0]), (0.15, [64, 0, 11]), (1.0, [64, 0, 30])])
def test_sizes_of_one_order_are_packed_as_any_others(monkeypatch: pytest.MonkeyPatch, share: float, most: list[int]):
    lengths = draw(2.5, 0.8, 400, 30, 1)
    sizes = np.array([[length, 0, int(share * length)] for length in lengths])
    assert are_ordered(np.unique(sizes, axis=0), 2)
    rows = fill_rows(sizes, most, 2)
    monkeypatch.setattr(packing, "OrderedKinds", ScaledKinds)
    assert rows == fill_rows(sizes, most, 2) and OrderedKinds is not packing.OrderedKinds


@pytest.mark.parametrize("kinds", [[[1, 2], [2, 3]], [[1, 0, 2], [2, 0, 1]], [[1, 0, 2], [1, 0, 3]], [[0, 0], [1, 0]]])
def test_sizes_that_compete_have_no_order(kinds: list[list[int]]):
    assert not are_ordered(np.array(kinds), 2)


def test_packing_depends_on_lengths_alone():
    lengths = draw(3.0, 0.6, 100, 60, 0)
    assert pack(plans_of(lengths), RowShape(64), LANGUAGE) == pack(plans_of(lengths), RowShape(64), LANGUAGE)


def test_examples_of_at_most_128_fill_rows_of_512_to_97_percent_in_well_under_two_seconds():
    generator = np.random.default_rng(0)
    lengths = [int(n) for n in np.clip(generator.normal(108, 25, 28_000), 10, 128)]  # pairs of wikipedia sentences
    began = time.process_time()
    rows = pack(plans_of(lengths), RowShape(512, longest=128), LANGUAGE)
    assert time.process_time() - began < 2
    assert sum(lengths) / (512 * len(rows)) >= 0.97


def test_sentence_pairs_are_as_long_as_a_row_and_fill_it_to_97_percent():
    generator = np.random.default_rng(0)
    counts = generator.integers(20, 200, 60)  # articles of sentences, as in Wikipedia
    units = np.cumsum([0, *np.clip(generator.lognormal(3.3, 0.6, counts.sum()), 2, 200).astype(int)])
    lengths = Lengths({"text": units}, np.cumsum([0, *counts]))
    mixture, shape = Mixture.parse({"masked_lm": {}, "next_sentence": {}}), RowShape(128)
    form = mixture.form(["text"], ModelTraits(causal=False, segments=True))
    plans = [plan for d in range(60) for plan in form.plan(lengths, d, 0, 0, shape.limits)]
    rows = pack(plans, shape, mixture)
    assert sum(plan.length for plan in plans) / (128 * len(rows)) >= 0.97
    assert sum(plan.truncated for plan in plans) <= 60  # a single last token of a document


def test_translation_pairs_fill_both_sides_to_95_percent():
    generator = np.random.default_rng(0)
    source = np.clip(generator.normal(15, 5, 1024), 4, 50).astype(int)
    target = np.clip(source + generator.normal(0, 2.5, 1024), 4, 50).astype(int)
    rows = pack(plans_of(target.tolist(), source.tolist()), RowShape(128, 128), Mixture.parse("translation"))
    assert target.sum() / (128 * len(rows)) >= 0.95
    assert source.sum() / (128 * len(rows)) >= 0.95
    assert all(sum(plan.source_length for plan in row) <= 128 for row in rows)


def test_a_row_closes_at_the_most_documents_that_a_head_scores():
    rows = pack(plans_of([3] * 20), RowShape(32), Mixture.parse("classification"))
    assert [len(row) for row in rows] == [4, 4, 4, 4, 4]


def test_a_row_closes_at_the_most_positions_that_a_head_scores():
    mixture = Mixture.parse("masked_lm")  # a document of 3 positions has one scored; 32 positions hold 6
    plans = [ExamplePlan(i, 0, 3, 0, (Piece("text", i, i + 1),)) for i in range(12)]
    rows = pack(plans, RowShape(32, longest=16), mixture)
    assert [len(row) for row in rows] == [6, 6]


def test_without_packing_an_example_has_a_row_of_its_own():
    assert [len(row) for row in pack(plans_of([3, 4, 5]), RowShape(32, pack=False), LANGUAGE)] == [1, 1, 1]


def test_no_plans_are_no_rows():
    assert pack([], RowShape(32), LANGUAGE) == []


def test_a_long_text_is_packed_by_its_sizes_and_not_piece_by_piece(monkeypatch: pytest.MonkeyPatch):
    rows: list[list[int]] = []
    chosen = OrderedKinds.fill_row
    monkeypatch.setattr(OrderedKinds, "fill_row", lambda *given: rows.append(chosen(*given)) or rows[-1])
    sizes = np.array([[8]] * 500 + [[5]] * 300 + [[3]] * 301)
    assert fill_rows(sizes, [8], 1) == [[n] for n in range(500)] + [[n, n + 300] for n in range(500, 800)] + [[1100]]
    assert len(rows) == 3


def test_of_kinds_that_fit_as_well_the_first_in_order_is_taken():
    """By the first size, then by the others; of a kind the first item."""
    assert fill_rows(np.array([[2, 1], [1, 2], [2, 1], [1, 2]]), [9, 9], 2) == [[1, 0, 3, 2]]


def test_a_kind_that_is_taken_too_often_is_no_endless_loop(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(packing.FitScores, "drop", lambda self, kind: None)
    with pytest.raises(AssertionError, match="more items of a kind than wait"):
        fill_rows(np.array([[2, 1], [1, 2]]), [9, 9], 2)
