"""Rows of several sources: in proportion at every prefix, a function of the row's number, resumed anywhere."""

import json
from dataclasses import replace
from fractions import Fraction
from unittest.mock import Mock

import numpy as np
import pytest

from zoo.batches import order
from zoo.batches.feed import Feed
from zoo.batches.mixing import MixedFeed, feed_of, next_source
from zoo.batches.order import Examples, MixedSource, PackedRow, normalize_weights
from zoo.batches.packing import RowShape
from zoo.batches.permutation import ORDER_VERSION
from zoo.data.columns.pictures import Augment
from zoo.data.ids import Ids, Lengths, Piece, Roles
from zoo.examples.form import ModelTraits
from zoo.objectives.mixture import Mixture

ROLES = Roles(vocab_size=80, pad=0, unk=1, start=2, end=3, separator=4, extract=5, mask=6)
SIZES = {"wiki": 40, "books": 15}
WEIGHTS = {"wiki": 3.0, "books": 0.5}
FIRST = {"wiki": 7, "books": 60}  # token of each


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "WINDOW", 8)


def ingredient(name: str) -> MixedSource:
    """Documents of five tokens, each of which is the number of its document, counted from the source's first one."""
    ids = np.repeat(np.arange(FIRST[name], FIRST[name] + SIZES[name]), 5)
    lengths = Lengths({"text": np.arange(SIZES[name] + 1) * 5})
    return MixedSource(name, WEIGHTS[name], lengths, lambda piece: ids[piece.start : piece.stop])


def examples(*names: str, seed: int = 0) -> Examples:
    mixture = Mixture.parse("masked_lm")
    form = mixture.form(["text"], ModelTraits(causal=False))
    first, shape = ingredient("wiki"), RowShape(16)
    mix = tuple(map(ingredient, names))
    return Examples(form, mixture, first.lengths, first.read, ROLES, shape, seed, mix=mix)


@pytest.mark.parametrize("weights", [[1], [3, 1], [1, 1, 1], [0.7, 0.2, 0.1], [100, 1, 1, 7, 0.01], [1e-3, 1]])
def test_every_source_is_within_one_row_of_its_share_at_every_prefix(weights: list[float]):
    taken, wanted = [0] * len(weights), normalize_weights(weights)
    for number in range(1, 700):
        taken[next_source(wanted, taken)] += 1
        most = 1 - Fraction(1, 2 * len(weights) - 2) if len(weights) > 1 else 0
        assert all(abs(share * number - count) <= most for share, count in zip(wanted, taken, strict=True))
        assert sum(taken) == number


def sources(rows: list[PackedRow]) -> list[int]:
    return [sum(row.source == source for row in rows) for source in range(2)]


def test_rows_are_those_of_each_source_alone_in_proportion():
    given = examples("wiki", "books")
    rows = feed_of(given).take(28)
    assert sources(rows) == [24, 4]
    for number, source in enumerate(given.sources):
        alone = Feed(source).take(sources(rows)[number])
        assert [row._replace(source=None) for row in rows if row.source == number] == alone


def test_the_stream_goes_on_identically_from_any_row():
    whole = MixedFeed(examples("wiki", "books"))
    rows = whole.take(60)
    for taken in range(0, 60, 7):
        stopped, resumed = (MixedFeed(examples("wiki", "books")) for _ in range(2))
        stopped.take(taken)
        resumed.seek(json.loads(json.dumps(stopped.position)))
        assert resumed.take(60 - taken) == rows[taken:] and resumed.position == whole.position


def test_a_row_is_built_from_its_own_source():
    given = examples("wiki", "books")
    for row in feed_of(given).take(14):
        built = given.build(row)
        for example, plan in zip(built, row.plans, strict=True):
            assert FIRST[("wiki", "books")[row.source]] + plan.document in example.tokens
            assert [e.tokens.tolist() for e in given.sources[row.source].build(row)] == [
                e.tokens.tolist() for e in built
            ]


def test_a_mixture_is_evaluated_as_one_split():
    given = examples("wiki", "books")
    plain = replace(given, mix=(), lengths=Lengths({"text": np.arange(56) * 5}), read=joined)
    whole = replace(plain, mix=given.mix)
    for row in whole.rows_in_order():
        assert [e.tokens.tolist() for e in whole.build(row)] == [e.tokens.tolist() for e in plain.build(row)]
        for example, plan in zip(plain.build(row), row.plans, strict=True):
            assert sum(piece.stop - piece.start for piece in plan.pieces) == example.is_text.sum()


def joined(piece: Piece) -> Ids:
    """The tokens of both sources one after the other."""
    ids = np.repeat(np.concatenate([np.arange(FIRST[name], FIRST[name] + size) for name, size in SIZES.items()]), 5)
    return ids[piece.start : piece.stop]


def test_sources_of_one_mixture_draw_apart_and_do_not_depend_on_each_other():
    both, alone = examples("wiki", "books").sources, examples("books").sources
    assert both[0].seed != both[1].seed == alone[0].seed != replace(examples("books"), seed=1).sources[0].seed


def test_pictures_of_a_source_are_varied_as_those_of_the_mixture():
    assert replace(examples("wiki", "books"), augment=Augment(shift=0.5)).sources[1].augment == Augment(shift=0.5)


@pytest.mark.parametrize(("largest", "rows"), [(21, 30), (20, 29)])  # 21 / 0.7 is more in floats; 20 / 0.7 = 28.6
def test_the_rows_of_an_epoch_follow_from_weights_as_they_are_written(
    monkeypatch: pytest.MonkeyPatch, largest: int, rows: int
):
    given = examples("wiki", "books")
    mix = tuple(one._replace(weight=weight) for one, weight in zip(given.mix, (0.7, 0.3), strict=True))
    monkeypatch.setattr(Examples, "sources", [Mock(count_rows=lambda n=n: n) for n in (largest, 2)])
    assert replace(given, mix=mix).count_rows() == rows


@pytest.mark.parametrize("weight", [3.0, 0.2])  # the largest source's; the other's is 0.5
@pytest.mark.parametrize("names", [("wiki", "books"), ("books", "wiki")])
def test_an_epoch_of_a_mixture_has_read_its_largest_source_once(
    names: tuple[str, str], weight: float, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(WEIGHTS, "wiki", weight)
    given, at = examples(*names), names.index("wiki")
    largest = given.sources[at].count_rows()
    feed = MixedFeed(given)
    rows = feed.take(given.count_rows())
    assert 0 <= sources(rows)[at] - largest <= 1 and largest > given.sources[1 - at].count_rows()


def test_the_line_of_the_log_counts_the_rows_of_each_source():
    feed = feed_of(examples("wiki", "books"))
    feed.take(7)
    assert feed.rows_taken(feed.position) == {"rows/wiki": 6.0, "rows/books": 1.0}
    assert feed_of(examples("wiki")).rows_taken({"taken": {"wiki": 2}}) == {"rows/wiki": 2.0}
    alone = Feed(examples())
    assert alone.rows_taken(alone.position) == {}


@pytest.mark.parametrize(
    ("names", "said"), [((), "one source"), (("wiki",), "wiki"), (("books", "wiki"), "books, wiki")]
)
def test_a_position_in_another_mixture_is_refused(names: tuple[str, ...], said: str):
    position = feed_of(examples(*names)).position
    with pytest.raises(ValueError, match=f"^data position: from {said}, but source.mix has wiki, books$"):
        MixedFeed(examples("wiki", "books")).seek(position)


def test_a_mixture_has_the_order_version_of_its_longest_documents(monkeypatch: pytest.MonkeyPatch):
    """A checkpoint stores one version for all sources."""
    given = examples("wiki", "books")
    longer = [one._replace(lengths=Lengths({"text": 50 * np.arange(SIZES[one.name] + 1)})) for one in given.mix]
    monkeypatch.setattr(order, "WINDOW_TOKENS", 8 * 5)
    mixes = [given.mix, (given.mix[0], longer[1]), (longer[0], given.mix[1])]
    found = [MixedFeed(replace(given, mix=mix)).position["order"] for mix in mixes]
    assert found == [ORDER_VERSION, ORDER_VERSION + 1, ORDER_VERSION + 1]
