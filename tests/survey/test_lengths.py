"""Lengths are counted exactly, also of documents that are kept one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.data.ids import Lengths
from zoo.survey import lengths as lengths_module
from zoo.survey.lengths import LengthTally, document_lengths, document_offsets, document_ranges
from zoo.survey.sizes import share_cut

MANY = st.lists(st.integers(0, 40), min_size=1, max_size=30)


def tally(values: list[int]) -> LengthTally:
    found = LengthTally()
    for value in values:
        found.add(np.array([value]))
    return found


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lengths_module, "CAP", 16)


@given(MANY)
def test_counts_and_tokens_are_those_of_a_list(values: list[int]) -> None:
    found = tally(values)
    assert (found.documents, found.tokens, found.longest) == (len(values), sum(values), max(values))


@given(MANY, st.integers(1, 45))
def test_what_lies_beyond_a_limit_is_counted_exactly(values: list[int], limit: int) -> None:
    longer = [value for value in values if value > limit]
    assert tally(values).longer_than(limit) == (len(longer), sum(longer) - limit * len(longer))


def test_what_an_example_cannot_hold_is_counted_by_its_own_field_whatever_its_length() -> None:
    lengths = {"source": tally([70, 10]), "target": tally([90, 20])}
    found = share_cut(lengths, {"source": 69, "target": 15}, True)
    assert found == {"longer": 3 / 4, "beyond": (1 + 75 + 5) / 190, "is": "truncated"}


@given(MANY)
def test_the_median_is_the_smallest_length_that_half_do_not_exceed(values: list[int]) -> None:
    assert tally(values).quantile(0.5) == sorted(values)[(len(values) - 1) // 2]


def test_mean_and_quantiles_are_those_of_all_documents() -> None:
    assert [tally([3, 30, 40]).quantile(share) for share in (0.3, 0.6, 0.7, 1)] == [3, 30, 40, 40]
    assert tally([3, 30, 40]).describe()["mean"] == pytest.approx(73 / 3)
    assert [tally(list(range(1, 11))).describe()[name] for name in ("median", "p90", "p99")] == [5, 9, 10]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_a_histogram_has_each_document_in_one_bar(values: list[int]) -> None:
    bars = tally(values).histogram()
    assert sum(bar["documents"] for bar in bars) == len(values)
    assert all(sum(bar["from"] <= v <= bar["to"] for v in values) == bar["documents"] for bar in bars)


def test_a_histogram_begins_and_ends_with_a_bar_that_has_documents() -> None:
    bars = tally([2, 9]).histogram()
    assert [(bar["from"], bar["to"], bar["documents"]) for bar in bars] == [(2, 3, 1), (4, 7, 0), (8, 15, 1)]


def test_documents_of_sentences_begin_where_their_first_sentence_does() -> None:
    lengths = Lengths({"text": np.array([0, 2, 5, 9, 10])}, sentences=np.array([0, 1, 3, 4]))
    assert document_offsets(lengths, "text", 0, 3).tolist() == [0, 2, 9, 10]
    assert document_offsets(lengths, "text", 1, 2).tolist() == [2, 9]


def test_fields_add_up() -> None:
    lengths = Lengths({"text": np.array([0, 2, 5]), "pair": np.array([0, 1, 9])})
    assert document_lengths(lengths, ("text", "pair"), 0, 2).tolist() == [3, 11]


def test_a_window_holds_few_tokens_unless_one_document_has_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lengths_module, "TOKENS", 10)
    lengths = Lengths({"text": np.array([0, 4, 8, 30, 31, 32])})
    assert list(document_ranges(lengths, ("text",))) == [(0, 2), (2, 3), (3, 5)]
