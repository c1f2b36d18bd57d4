import json
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

from zoo.batches import order as order_module
from zoo.batches import permutation
from zoo.batches.feed import Feed
from zoo.batches.order import Examples, PackedRow
from zoo.batches.packing import RowShape
from zoo.data.ids import Lengths, Roles
from zoo.examples.form import ModelTraits
from zoo.objectives.mixture import Mixture

ROLES = Roles(vocab_size=50, pad=0, unk=1, start=2, end=3, separator=4, extract=5, mask=6)


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_module, "WINDOW", 8)


def examples(objective: object = "masked_lm", seed: int = 0, shape: RowShape | None = None) -> Examples:
    """30 documents of random lengths: whole texts, or sentences where the objective needs them."""
    generator, documents = np.random.default_rng(5), 30
    if objective == "masked_lm":
        sizes, sentences = generator.integers(1, 40, size=documents), None
    else:
        counts = generator.integers(1, 6, size=documents)
        sizes, sentences = generator.integers(1, 9, size=counts.sum()), np.cumsum([0, *counts])
    lengths = Lengths({"text": np.cumsum([0, *sizes])}, sentences)
    ids = generator.integers(7, 50, size=sizes.sum())
    mixture = Mixture.parse(objective)
    form = mixture.form(["text"], ModelTraits(causal=False, segments=True))
    shape = shape or RowShape(48, longest=24)
    return Examples(form, mixture, lengths, lambda piece: ids[piece.start : piece.stop], ROLES, shape, seed)


def named(rows: list[PackedRow]) -> list[tuple[int, int, int]]:
    return [(row.epoch, plan.document, plan.number) for row in rows for plan in row.plans]


def test_an_epoch_has_every_example_once_and_the_next_epoch_another_order():
    stream = Feed(examples())
    counts = [sum(len(stream.examples.rows(epoch, n)) for n in range(stream.examples.window_count)) for epoch in (0, 1)]
    first, second = map(stream.take, counts)
    assert len(set(named(first))) == len(named(first))
    assert {d for _, d, _ in named(first)} == {d for _, d, _ in named(second)} == set(range(30))
    assert {e for e, _, _ in named(first)} == {0} and {e for e, _, _ in named(second)} == {1}
    assert [d for _, d, _ in named(first)] != [d for _, d, _ in named(second)]


def test_each_epoch_has_an_order_of_documents_of_its_own():
    orders = [permutation.shuffled_documents(0, epoch, 30).tolist() for epoch in range(3)]
    assert all(sorted(found) == list(range(30)) for found in orders)
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_the_rows_of_a_window_are_shuffled_anew_in_each_epoch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(permutation, "shuffled_documents", lambda seed, epoch, documents: np.arange(documents))
    given = examples(shape=RowShape(48, longest=24, pack=False))
    first, second = ([plan.document for row in given.rows(epoch, 0) for plan in row.plans] for epoch in (0, 1))
    assert sorted(first) == sorted(second) and first != second


def test_another_seed_gives_another_order():
    assert named(Feed(examples(seed=0)).take(9)) != named(Feed(examples(seed=1)).take(9))


def test_the_documents_of_a_window_are_others_in_each_epoch():
    first, second = ({d for _, d, _ in named(examples().rows(epoch, 0))} for epoch in (0, 1))
    assert len(first) == len(second) == order_module.WINDOW and first != second


@pytest.mark.parametrize("objective", ["masked_lm", {"masked_lm": {}, "next_sentence": {}}])
def test_the_stream_goes_on_identically_from_any_position(objective: object):
    whole = Feed(examples(objective))
    rows = whole.take(40)
    for taken in range(0, 40, 3):
        stopped = Feed(examples(objective))
        stopped.take(taken)
        resumed = Feed(examples(objective))
        resumed.seek(json.loads(json.dumps(stopped.position)))
        assert resumed.take(40 - taken) == rows[taken:]
        assert resumed.position == whole.position


def test_a_position_tells_every_example_so_far_in_their_order():
    feed, seen = Feed(examples()), ""
    for row in feed.take(feed.examples.count_rows() + 3):
        seen = sha256(f"{seen}{row.names}".encode()).hexdigest()
    assert feed.position["epoch"] == 1 and feed.position["seen"] == seen


def test_seeking_plans_one_window(monkeypatch: pytest.MonkeyPatch):
    given = examples()
    asked: list[int] = []
    plan = Examples.plan

    def watch(self: Examples, epoch: int, documents: list[int]) -> list[object]:
        asked.append(len(documents))
        return plan(self, epoch, documents)  # type: ignore[return-value]

    monkeypatch.setattr(Examples, "plan", watch)
    feed = Feed(given)
    asked.clear()
    feed.seek({"epoch": 3, "window": 2, "row": 1})
    assert asked == [8]


def test_taking_in_small_steps_equals_taking_at_once():
    at_once = Feed(examples()).take(35)
    steps = Feed(examples())
    assert [row for _ in range(7) for row in steps.take(5)] == at_once


def contents(given: Examples, rows: list[PackedRow]) -> dict[tuple[int, int, int], list[int]]:
    built = [example.tokens.tolist() for row in rows for example in given.build(row)]
    return dict(zip(named(rows), built, strict=True))


def test_masking_does_not_depend_on_packing():
    packed, alone = examples(), examples(shape=RowShape(24, pack=False))
    theirs = [contents(g, Feed(g).take(g.count_rows())) for g in (packed, alone)]
    assert theirs[0] == theirs[1]


def test_masking_changes_with_the_epoch_and_the_seed():
    given = examples()
    rows = Feed(given).take(5)
    later = [PackedRow(1, row.plans) for row in rows]
    found = [contents(given, rows), contents(given, later), contents(replace(given, seed=1), rows)]
    assert len({str(list(tokens.values())) for tokens in found}) == 3


@pytest.mark.parametrize("sizes", [[22] * 20, [22 * 20]])
def test_examples_of_one_length_are_masked_each_at_positions_of_its_own(sizes: list[int]):
    given = replace(examples(), lengths=Lengths({"text": np.cumsum([0, *sizes])}))
    built = [example for row in given.rows_in_order() for example in given.build(row)]
    assert len({str(example.places) for example in built}) > len(built) / 2


def test_evaluation_gives_every_example_once_in_the_order_of_the_data():
    given = examples(shape=RowShape(24, pack=False))
    names = named(list(given.rows_in_order()))
    assert names == sorted(names) and {d for _, d, _ in names} == set(range(30))


class Listed(dict[int, frozenset[int]]):
    """Chosen documents that count how often all of them are gone through."""

    count = 0

    def __iter__(self) -> Iterator[int]:
        self.count += 1
        return super().__iter__()


def test_a_sample_is_put_in_order_once_and_not_for_each_window():
    only = Listed(dict.fromkeys(range(30), frozenset({0})))
    given = replace(examples(), subset=only)
    assert len(named(list(given.rows_in_order()))) == 30 and given.window_count == 4 and only.count == 1


def test_packed_evaluation_gives_the_same_examples_by_rows_in_the_order_of_the_data():
    rows = list(examples().rows_in_order())
    assert sorted(named(rows)) == named(list(examples(shape=RowShape(24, pack=False)).rows_in_order()))
    assert [row.names[0] for row in rows] == sorted(row.names[0] for row in rows)
    assert all(row.names == sorted(row.names) for row in rows)


def test_seed_and_epoch_decide_which_parts_are_paired_and_the_seed_what_a_sample_holds():
    paired = [examples({"next_sentence": {}}, seed=seed).plan(0, range(30)) for seed in (0, 0, 1)]
    assert paired[0] == paired[1] != paired[2]
    assert paired[0] != examples({"next_sentence": {}}).plan(1, range(30))
    drawn = [examples(seed=seed).sample(5).subset for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_sample_has_so_many_of_all_examples_and_a_part_of_it_those_of_its_documents():
    given = examples()
    every, drawn = {(d, n) for _, d, n in named(list(given.rows_in_order()))}, given.sample(7)
    chosen = [(d, n) for _, d, n in named(list(drawn.rows_in_order()))]
    assert len(set(chosen)) == len(chosen) == drawn.count == 7 and set(chosen) <= every
    assert list(drawn.documents) == sorted(drawn.documents), "in the order of the data"
    assert given.sample(len(every)) is given and given.sample(len(every) - 1).count == len(every) - 1
    documents = range(15)
    for whole in (given, drawn):
        expected = {(d, n) for _, d, n in named(list(whole.rows_in_order())) if d in documents}
        assert {(d, n) for _, d, n in named(list(whole.of_documents(documents).rows_in_order()))} == expected


def test_truncated_examples_are_counted_with_their_tokens():
    lengths = Lengths({"text": np.array([0, 5, 25, 28])})
    mixture = Mixture.parse("classification")
    form = mixture.form(["text"], ModelTraits(causal=False))
    given = Examples(form, mixture, lengths, lambda piece: np.zeros(piece.length, dtype=np.int64), ROLES, RowShape(10))
    assert given.count_truncated() == (1, 12)


def follows(counts: list[int]) -> Examples:
    """Documents of so many sentences of one token, of which a model says whether one follows another."""
    sentences, mixture = np.cumsum([0, *counts]), Mixture.parse("next_sentence")
    lengths = Lengths({"text": np.arange(sentences[-1] + 1)}, sentences)
    form = mixture.form(["text"], ModelTraits(causal=False))
    return Examples(form, mixture, lengths, lambda piece: np.zeros(piece.length, dtype=np.int64), ROLES, RowShape(10))


def test_data_without_any_example_is_refused():
    with pytest.raises(ValueError, match="data: no document is long enough for an example"):
        Feed(follows([1, 1])).take(1)


def test_a_single_example_comes_in_every_epoch_wherever_its_window_stands():
    """Windows without one may lie in a row at the end of an epoch and at the beginning of the next."""
    given = follows([1] * 12 + [2] + [1] * 17)
    assert given.window_count == 4
    assert named(Feed(given).take(20)) == [(epoch, 12, 0) for epoch in range(20)]


@pytest.mark.parametrize("position", [{"window": 4}, {"window": -1}, {"epoch": -1}])
def test_a_position_of_other_data_is_refused(position: dict[str, int]):
    with pytest.raises(ValueError, match="the data has 4 windows"):
        Feed(examples()).seek(position)


@pytest.mark.parametrize("row", [99, -1])
def test_a_position_beyond_the_rows_of_its_window_is_refused(row: int):
    with pytest.raises(ValueError, match="that window has .* sequences"):
        Feed(examples()).seek({"row": row})


def test_a_tokenizer_without_a_needed_role_is_refused():
    with pytest.raises(ValueError, match="no token for 'mask'"):
        replace(examples(), roles=replace(ROLES, mask=None))


def test_an_example_too_short_for_text_is_refused():
    with pytest.raises(ValueError, match="longest: 2 is too short"):
        examples(shape=RowShape(24, longest=2))


@pytest.fixture
def two_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """What many documents have: blocks of 4, pools of 3 blocks, windows of 8."""
    monkeypatch.setattr(permutation, "LARGEST_TABLE", 10)
    monkeypatch.setattr(order_module, "LARGEST_TABLE", 10)
    monkeypatch.setattr(permutation, "BLOCK", 4)
    monkeypatch.setattr(permutation, "POOL", 3)
    permutation.mixed_pool.cache_clear()
    yield
    permutation.mixed_pool.cache_clear()


def test_an_order_of_two_levels_has_every_example_once_and_goes_on_from_any_position(two_levels: None):
    whole = Feed(examples())
    rows = whole.take(whole.examples.count_rows())
    assert {document for _, document, _ in named(rows)} == set(range(30)) and whole.position["epoch"] == 0
    assert len(set(named(rows))) == len(named(rows))
    for taken in range(0, len(rows), 2):
        stopped, resumed = Feed(examples()), Feed(examples())
        stopped.take(taken)
        resumed.seek(json.loads(json.dumps(stopped.position)))
        assert resumed.take(len(rows) - taken) == rows[taken:]


def test_a_sample_of_very_many_examples_plans_no_more_than_it_needs(two_levels: None, monkeypatch: pytest.MonkeyPatch):
    given, planned, plans = examples(), list[object](), Examples.plans
    monkeypatch.setattr(Examples, "plans", lambda self, *asked: planned.append(asked) or plans(self, *asked))
    drawn = given.sample(5)
    assert len(planned) == 1 and set(drawn.subset) <= {d for _, d, _ in named(given.rows(0, 0))}
    assert drawn.count == 5 and drawn.subset == given.sample(5).subset != examples(seed=1).sample(5).subset
    assert given.sample(given.count) is given and given.sample(given.count - 1).count == given.count - 1


@pytest.mark.parametrize(("tokens", "window"), [(9, 8), (7, 4), (1, 1)])
def test_windows_of_long_documents_have_fewer(monkeypatch: pytest.MonkeyPatch, tokens: int, window: int):
    given, whole = examples(), Feed(examples()).position
    monkeypatch.setattr(order_module, "WINDOW_TOKENS", tokens * int(given.lengths.offsets["text"][-1]) // 30)
    stream = Feed(given)
    assert given.window_size == window and stream.position["order"] == permutation.ORDER_VERSION + (window < 8)
    assert len(set(named(stream.take(given.count_rows())))) == given.count
    if window < 8:
        with pytest.raises(
            ValueError,
            match=f"version {permutation.ORDER_VERSION} of the data order, but .* {permutation.ORDER_VERSION + 1}",
        ):
            stream.seek(whole)


def test_tokens_of_all_fields_make_windows_small(monkeypatch: pytest.MonkeyPatch):
    given, offsets = examples(), examples().lengths.offsets["text"]
    monkeypatch.setattr(order_module, "WINDOW_TOKENS", 9 * int(offsets[-1]) // 30)
    both = replace(given, lengths=Lengths({"source": offsets, "target": offsets}))
    assert (given.window_size, both.window_size) == (8, 4)
