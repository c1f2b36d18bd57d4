"""Claims about texts with spans missing, and about texts that are cut into a beginning and a rest."""

from itertools import pairwise, product

import numpy as np
import pytest
from numpy.typing import NDArray

from zoo.data.ids import Ids, Lengths, Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, Limits, ModelTraits
from zoo.examples.forms.corrupted import Corrupted, most_tokens, noise_of, spans
from zoo.examples.forms.prefix import Prefix
from zoo.examples.template import cut

BOTH = ModelTraits(causal=True, source=True)
SENTINELS = tuple(range(99, 69, -1))
ROLES = Roles(vocab_size=100, pad=0, unk=1, start=2, end=3, separator=4, extract=5, mask=6, sentinels=SENTINELS)
LIMITS = Limits(longest=12, source=30)


def t5_mask(length: int, share: float, mean_span: float, generator: np.random.Generator) -> NDArray[np.bool_]:
    """`random_spans_noise_mask` of text-to-text-transfer-transformer, line by line, with numpy's generator."""
    noise_tokens = min(max(int(np.round(length * share)), 1), length - 1)
    noise_spans = max(int(np.round(noise_tokens / mean_span)), 1)

    def random_segmentation(items: int, segments: int) -> Ids:
        first_in_segment = np.pad(generator.permutation(np.arange(items - 1) < segments - 1), [[1, 0]])
        segment_id = np.cumsum(first_in_segment)
        return np.array([(segment_id == i).sum() for i in range(segments)])

    noise = random_segmentation(noise_tokens, noise_spans)
    text = random_segmentation(length - noise_tokens, noise_spans)
    starts = np.cumsum(np.stack([text, noise], axis=1).reshape(-1))[:-1]
    indicator = np.zeros(length, dtype=np.int64)
    np.add.at(indicator, starts, 1)
    return np.cumsum(indicator) % 2 == 1


@pytest.mark.parametrize(("share", "mean_span"), [(0.15, 3.0), (0.4, 1.0), (0.3, 10.0)])
def test_the_missing_spans_are_those_of_t5(share: float, mean_span: float):
    for length in (2, 3, 7, 20, 114, 512):
        wanted = t5_mask(length, share, mean_span, np.random.default_rng(length))
        borders = spans(length, noise_of(length, share, mean_span), np.random.default_rng(length))
        mine = np.zeros(length, dtype=bool)
        for start, stop in zip(borders[1::2], borders[2::2], strict=True):
            mine[start:stop] = True
        assert np.array_equal(mine, wanted)


def test_where_almost_all_is_missing_a_token_still_stands_between_two_spans():
    borders = spans(10, noise_of(10, 0.9, 1.0), np.random.default_rng(0))
    assert np.diff(borders).tolist() == [1, 9]


def test_512_tokens_become_114_as_in_the_paper():
    """The paper's numbers: a text of 568 tokens becomes 512 that are read and 114 that are written."""
    assert most_tokens(Limits(longest=114, source=512), 0.15, 3.0) == 568


@pytest.mark.parametrize(("first", "last"), [(1, 1), (1, 2), (2, 2)])
def test_no_piece_is_too_short_or_too_long(first: int, last: int):
    for room in range(3, 13):
        for total in range(last, 60):
            pieces = cut(total, room, np.random.default_rng(total), first, last)
            sizes = [stop - start for start, stop in pieces]
            assert sizes[0] >= first and sizes[-1] >= last and max(sizes) <= room
            assert sum(sizes) == total and set(sizes[1:-1]) <= {room}


@pytest.mark.parametrize(("form", "room"), [(Prefix(BOTH, True), 2), (Corrupted(BOTH, True, share=0.5), 3)])
def test_a_single_token_is_left_out_where_pieces_of_two_leave_one(form: Form, room: int):
    plans = planned(form, 5, Limits(longest=room, source=room))
    assert [sum(piece.length for piece in plan.pieces) for plan in plans] == [2, 2]


def planned(form: Form, length: int, limits: Limits = LIMITS, epoch: int = 0) -> list[ExamplePlan]:
    return form.plan(Lengths({"text": np.array([0, 7, 7 + length])}), 1, epoch, 0, limits)


def built(form: Form, plans: list[ExamplePlan]) -> list[Example]:
    text = np.arange(7, 70)
    return [form.build(plan, lambda piece: text[piece.start - 7 : piece.stop - 7], ROLES) for plan in plans]


def restored(example: Example) -> list[int]:
    """The text that source and target together are of."""
    missing: dict[int, list[int]] = {}
    for token in example.next_tokens[:-1].tolist():
        if token in SENTINELS:
            current = missing.setdefault(token, [])
        else:
            current.append(token)
    assert example.source is not None and example.source[-1] == example.next_tokens[-1] == ROLES.end
    return [new for token in example.source[:-1].tolist() for new in missing.get(token, [token])]


@pytest.mark.parametrize("length", [2, 3, 20, most_tokens(LIMITS, 0.15, 3.0) + 1, 60])
def test_source_and_target_hold_the_whole_text(length: int):
    for epoch in range(50 if length > 20 else 1):  # a first or last piece of one token, which is rare, would be lost
        plans = planned(Corrupted(BOTH, False), length, epoch=epoch)
        found = built(Corrupted(BOTH, False), plans)
        assert [token for one in found for token in restored(one)] == list(range(7, 7 + length))


@pytest.mark.parametrize("form", [Corrupted(BOTH, False), Prefix(BOTH, False)], ids=["corrupted", "prefix"])
@pytest.mark.parametrize("length", [2, 29, 60])
def test_examples_are_as_long_as_planned_and_keep_to_the_limits(form: Form, length: int):
    plans = planned(form, length)
    for plan, one in zip(plans, built(form, plans), strict=True):
        assert (len(one.source if one.source is not None else []), len(one.tokens)) == (plan.source_length, plan.length)
        assert plan.source_length <= LIMITS.source and plan.length <= LIMITS.longest


def test_the_first_span_has_the_first_sentinel_on_both_sides():
    (one,) = built(
        Corrupted(BOTH, False, share=0.4, mean_span=2.0), planned(Corrupted(BOTH, False, share=0.4, mean_span=2.0), 10)
    )
    assert one.source is not None
    assert [t for t in one.source if t in SENTINELS] == [t for t in one.next_tokens if t in SENTINELS] == [99, 98]


@pytest.mark.parametrize("form", [Corrupted(BOTH, False), Prefix(BOTH, False)], ids=["corrupted", "prefix"])
def test_a_single_token_makes_no_example(form: Form):
    assert planned(form, 1) == []


@pytest.mark.parametrize("form", [Corrupted(BOTH, False), Prefix(BOTH, False)], ids=["corrupted", "prefix"])
def test_each_epoch_draws_anew_and_the_same_one_the_same(form: Form):
    again, other = (planned(form, 60, epoch=epoch) for epoch in (0, 1))
    assert planned(form, 60) == again != other


def test_a_rest_goes_on_where_the_beginning_ends_and_nothing_is_lost():
    for length, epoch in product(range(2, 61), range(10)):
        pieces = [piece for plan in planned(Prefix(BOTH, False), length, epoch=epoch) for piece in plan.pieces]
        assert all(piece.length for piece in pieces) and (pieces[0].start, pieces[-1].stop) == (7, 7 + length)
        assert all(one.stop == other.start for one, other in pairwise(pieces))


def test_only_the_last_rest_of_a_text_ends():
    plans = planned(Prefix(BOTH, False), 60)
    ends = [int(one.next_tokens[-1]) == ROLES.end for one in built(Prefix(BOTH, False), plans)]
    assert ends == [False] * (len(plans) - 1) + [True]


def test_beginnings_have_every_length():
    drawn = {planned(Prefix(BOTH, False), 4, epoch=epoch)[0].pieces[0].length for epoch in range(40)}
    assert drawn == {1, 2, 3}


def test_more_spans_than_sentinels_are_refused():
    form = Corrupted(BOTH, False, sentinels=1)
    with pytest.raises(
        ValueError, match="longest: an example of 64 tokens has 3 missing spans, but the tokenizer 1 sen"
    ):
        form.check(Limits(longest=64, source=64))


@pytest.mark.parametrize("longest", range(4, 12))
def test_a_text_is_as_long_as_its_target_may_be_and_has_as_many_spans_as_there_are_sentinels(longest: int):
    limits = Limits(longest, 60)
    length = most_tokens(limits, 0.5, 2.0)
    noise, more = noise_of(length, 0.5, 2.0), noise_of(length + 1, 0.5, 2.0)
    assert noise.tokens + noise.spans + 1 <= longest < more.tokens + more.spans + 1
    Corrupted(BOTH, False, share=0.5, mean_span=2.0, sentinels=noise.spans).check(limits)
    if noise.spans > 1:
        with pytest.raises(
            ValueError, match=f"has {noise.spans} missing spans, but the tokenizer {noise.spans - 1} sen"
        ):
            Corrupted(BOTH, False, share=0.5, mean_span=2.0, sentinels=noise.spans - 1).check(limits)
