"""The order of data belongs to a checkpoint: as long as its version stays, a position has the same rows."""

from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

from zoo.batches import order as order_module
from zoo.batches.mixing import feed_of
from zoo.batches.order import Examples, MixedSource
from zoo.batches.packing import RowShape
from zoo.batches.permutation import LARGEST_TABLE, ORDER_VERSION, window_of
from zoo.data.ids import Ids, Lengths, Piece, Roles
from zoo.examples.form import ModelTraits
from zoo.objectives.mixture import Mixture

ROLES = Roles(vocab_size=50, pad=0, unk=1, start=2, end=3, separator=4, extract=5, mask=6)


def lengths_of(documents: int) -> Lengths:
    """Documents of one to five sentences of one to eight tokens, by a formula."""
    sentences = np.cumsum([0, *(1 + 7 * n % 5 for n in range(documents))])
    return Lengths({"text": np.cumsum([0, *(1 + 11 * n % 8 for n in range(int(sentences[-1])))])}, sentences)


def digest(*found: object) -> str:
    return sha256(str(found).encode()).hexdigest()[:16]


def nothing(piece: Piece) -> Ids:
    return np.zeros(piece.length, dtype=np.int64)


def examples(*weights: float) -> Examples:
    mixture = Mixture.parse({"masked_lm": {}, "next_sentence": {}})
    form = mixture.form(["text"], ModelTraits(causal=False, segments=True))
    mix = tuple(MixedSource(f"source {n}", one, lengths_of(20 + n), nothing) for n, one in enumerate(weights))
    return Examples(form, mixture, lengths_of(30), nothing, ROLES, RowShape(48, longest=24), 3, mix=mix)


@pytest.mark.parametrize(("weights", "expected"), [((), "659d2e74995137cf"), ((2, 0.7, 1), "0fdd78ee8399bbb2")])
def test_rows_are_those_of_their_version(weights: tuple[float, ...], expected: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(order_module, "WINDOW", 8)
    feed = feed_of(examples(*weights))
    rows = feed.take(40)
    cuts = [[piece.start for plan in row.plans for piece in plan.pieces] for row in rows]
    found = digest([(row.source, row.names) for row in rows], cuts, feed.position)
    assert (ORDER_VERSION, found) == (5, expected), "where rows change, ORDER_VERSION does"


def test_windows_of_very_many_documents_are_those_of_their_version():
    found = [window_of(3, 1, LARGEST_TABLE + 700, number, 1024).tolist() for number in (0, 5, 1023)]
    assert (ORDER_VERSION, digest(found)) == (5, "5e03b21b02e713f5"), "where windows change, ORDER_VERSION does"


def test_windows_have_as_many_documents_as_in_their_version():
    """A position names a window and a row of it, which would be other examples where windows are larger or smaller."""
    documents = {length: Lengths({"text": length * np.arange(4)}) for length in (1, 4096, 4097, 1 << 22)}
    sizes = {length: replace(examples(), lengths=lengths).window_size for length, lengths in documents.items()}
    expected = {1: 1024, 4096: 1024, 4097: 512, 1 << 22: 1}
    assert (ORDER_VERSION, sizes) == (5, expected), "where windows change, ORDER_VERSION does"


@pytest.mark.parametrize("weights", [(), (2, 1)])
def test_a_position_in_another_order_is_refused(weights: tuple[float, ...]):
    feed = feed_of(examples(*weights))
    with pytest.raises(ValueError, match=f"version 0 of the data order, but this zoo has version {ORDER_VERSION}"):
        feed.seek({**feed.position, "order": 0})


def test_the_order_of_a_mixture_is_another_one_where_windows_of_one_source_are_small(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(order_module, "WINDOW_TOKENS", 20 * order_module.WINDOW)
    given = examples(1, 1)
    long = given.mix[1]._replace(lengths=Lengths({"text": np.array([0, 40, 80])}, np.array([0, 1, 2])))
    assert feed_of(given).position["order"] == ORDER_VERSION
    assert feed_of(replace(given, mix=(given.mix[0], long))).position["order"] == ORDER_VERSION + 1
