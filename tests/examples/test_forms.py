from itertools import product

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from zoo.data.ids import Lengths, Piece, Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, Limits, ModelTraits
from zoo.examples.forms.both_orders import BothOrders
from zoo.examples.forms.pair import Pair
from zoo.examples.forms.source_target import SourceTarget
from zoo.examples.forms.text import Text
from zoo.examples.template import shorten

ROLES = Roles(vocab_size=1000, pad=0, unk=1, start=2, end=3, separator=4, extract=5, mask=6)
ENCODER, DECODER = ModelTraits(causal=False, segments=True), ModelTraits(causal=True)
BOTH = ModelTraits(causal=True, source=True)


def lengths_of(labels: list[int] | None = None, **fields: list[int]) -> Lengths:
    offsets = {name: np.cumsum([0, *sizes]) for name, sizes in fields.items()}
    return Lengths(offsets, labels=None if labels is None else np.array(labels))


def read(piece: Piece) -> np.ndarray:
    base = {"text": 10, "pair": 500, "source": 10, "target": 500}[piece.field]
    return np.arange(piece.start, piece.stop, dtype=np.int64) + base


def examples(form: Form, lengths: Lengths, limits: Limits, document: int = 0) -> list[tuple[ExamplePlan, Example]]:
    plans = form.plan(lengths, document, 0, 0, limits)
    return [(plan, form.build(plan, read, ROLES)) for plan in plans]


def test_an_encoders_text_stands_between_start_and_separator():
    [(plan, example)] = examples(Text(ENCODER, False), lengths_of(text=[3]), Limits(8))
    assert example.tokens.tolist() == [2, 10, 11, 12, 4]
    assert example.is_text.tolist() == [False, True, True, True, False]
    assert example.next_tokens.tolist() == [-1] * 5
    assert plan.length == 5


def test_an_encoders_pair_has_segment_0_up_to_and_with_the_first_separator():
    [(_, example)] = examples(Pair(ENCODER, True), lengths_of(text=[2], pair=[3], labels=[1]), Limits(8))
    assert example.tokens.tolist() == [2, 10, 11, 4, 500, 501, 502, 4]
    assert example.segments is not None and example.segments.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert (example.label, example.summary) == (1, 0)


def test_a_decoders_text_is_shifted_inside_the_document():
    [(_, example)] = examples(Text(DECODER, False), lengths_of(text=[3]), Limits(4))
    assert example.tokens.tolist() == [2, 10, 11, 12]
    assert example.next_tokens.tolist() == [10, 11, 12, 3]
    assert example.is_text.tolist() == [False, True, True, True]


def test_a_decoder_classifies_start_text_extract_and_still_predicts_the_next_token():
    [(_, example)] = examples(Text(DECODER, True), lengths_of(text=[2], labels=[7]), Limits(8))
    assert example.tokens.tolist() == [2, 10, 11, 5]
    assert example.next_tokens.tolist() == [10, 11, 5, -1]
    assert (example.label, example.summary) == (7, -1)


def test_a_decoders_pair_has_a_delimiter():
    [(_, example)] = examples(Pair(DECODER, True), lengths_of(text=[1], pair=[2]), Limits(8))
    assert example.tokens.tolist() == [2, 10, 4, 500, 501, 5]


def test_a_source_ends_with_end_and_a_target_is_shifted():
    form = SourceTarget(BOTH, False)
    [(plan, example)] = examples(form, lengths_of(source=[2], target=[3]), Limits(8, 8))
    assert example.source is not None and example.source.tolist() == [10, 11, 3]
    assert example.tokens.tolist() == [2, 500, 501, 502]
    assert example.next_tokens.tolist() == [500, 501, 502, 3]
    assert (plan.length, plan.source_length, plan.truncated) == (4, 3, 0)


def test_too_long_translations_are_truncated_and_counted_and_teach_no_false_end():
    form = SourceTarget(BOTH, False)
    [(plan, example)] = examples(form, lengths_of(source=[9], target=[9]), Limits(4, 5))
    assert example.source is not None and example.source.tolist() == [10, 11, 12, 13, 3]
    assert example.next_tokens.tolist() == [500, 501, 502, 503]
    assert plan.truncated == 5 + 6  # five of the source; five of the target and its end


def test_pairs_that_are_planned_together_are_planned_as_each_alone():
    sizes = np.random.default_rng(0).integers(0, 12, (2, 40)).tolist()
    lengths, form, limits = lengths_of(source=sizes[0], target=sizes[1]), SourceTarget(BOTH, False), Limits(7, 6)
    documents = np.random.default_rng(1).permutation(40).tolist()
    plans = form.plan_all(lengths, documents, 0, 0, limits)
    assert plans == [plan for document in documents for plan in form.plan(lengths, document, 0, 0, limits)]
    for plan in plans:
        source, target = (lengths.span(name, plan.document) for name in ("source", "target"))
        read, written = min(source.length, 5), min(target.length, 7)
        assert plan.pieces == (source.first(read), target.first(written)) and plan.source_length == read + 1
        assert plan.final is (target.length < 7) and plan.length == written + plan.final
        assert plan.truncated == source.length - read + target.length - written + (not plan.final)
        assert all(type(number) is int for number in (plan.document, plan.length, plan.source_length, plan.truncated))


def test_the_spans_of_lists_are_those_of_all_their_entries():
    lengths = Lengths({"text": np.array([0, 3, 3, 7, 9])}, lists={"text": np.array([0, 2, 2, 4])})
    begins, ends = lengths.spans("text", [2, 0, 1])
    assert [(3, 9), (0, 3), (3, 3)] == list(zip(begins.tolist(), ends.tolist(), strict=True))
    assert [lengths.span("text", n) for n in (2, 0, 1)] == [Piece("text", *at) for at in ((3, 9), (0, 3), (3, 3))]


def test_texts_that_must_stay_whole_are_truncated_and_counted():
    [(plan, example)] = examples(Text(ENCODER, True), lengths_of(text=[9]), Limits(5))
    assert example.tokens.tolist() == [2, 10, 11, 12, 4]
    assert plan.truncated == 6


def test_pairs_are_truncated_to_the_tokens_that_the_tokenizer_of_an_export_keeps():
    theirs = Tokenizer(WordLevel({"a": 0}, unk_token="a"))
    theirs.pre_tokenizer = WhitespaceSplit()
    for first, second, room in product(range(1, 9), range(1, 9), range(2, 9)):
        theirs.enable_truncation(room, strategy="longest_first")
        read = theirs.encode("a " * first, "a " * second).type_ids
        assert shorten(first, second, room) == (read.count(0), read.count(1))


@pytest.mark.parametrize(("first", "second", "kept"), [(9, 2, (5, 2)), (2, 9, (2, 5)), (9, 9, (3, 4)), (4, 3, (4, 3))])
def test_of_a_pair_the_longer_side_is_truncated_first(first: int, second: int, kept: tuple[int, int]):
    [(plan, _)] = examples(Pair(ENCODER, True), lengths_of(text=[first], pair=[second]), Limits(10))
    assert tuple(piece.length for piece in plan.pieces) == kept
    assert plan.truncated == first + second - sum(kept)


@pytest.mark.parametrize("longest", range(3, 13))
def test_a_decoder_predicts_every_token_of_a_cut_text_once_and_one_end(longest: int):
    form = Text(DECODER, False)
    for total in range(61):
        plans = form.plan(lengths_of(text=[5, total]), 1, total % 4, 7, Limits(longest))
        built = [form.build(plan, read, ROLES) for plan in plans]
        predicted = np.concatenate([example.next_tokens for example in built])
        assert predicted.tolist() == [*range(15, 15 + total), 3]
        assert all(len(example.tokens) == plan.length <= longest for plan, example in zip(plans, built, strict=True))
        assert all(example.tokens[0] == 2 for example in built)
        assert [plan.number for plan in plans] == list(range(len(plans)))
        assert len(plans) == max(1, -(-(total + 1) // longest)), "no more pieces than needed"
        assert len(plans) == 1 or plans[-1].length >= 2, "no piece of an end alone"


@pytest.mark.parametrize("longest", range(3, 13))
def test_an_encoder_sees_every_token_of_a_cut_text_once(longest: int):
    for total in range(61):
        built = examples(Text(ENCODER, False), lengths_of(text=[total]), Limits(longest))
        seen = np.concatenate([example.tokens[example.is_text] for _, example in built])
        assert seen.tolist() == list(range(10, 10 + total))
        assert all(len(example.tokens) == plan.length <= longest for plan, example in built)


def test_cuts_move_from_epoch_to_epoch_but_not_within_one():
    form, lengths = Text(DECODER, False), lengths_of(text=[100])
    firsts = {epoch: form.plan(lengths, 0, epoch, 0, Limits(16))[0].length for epoch in range(20)}
    assert len(set(firsts.values())) > 3
    assert form.plan(lengths, 0, 4, 0, Limits(16))[0].length == firsts[4]


def test_limits_without_room_for_text_are_refused():
    with pytest.raises(ValueError, match="longest: 2 is too short for an example; it must be at least 3"):
        Text(ENCODER, False).check(Limits(2))
    with pytest.raises(ValueError, match=r"longest\.source: 1 is too short .* at least 2"):
        SourceTarget(BOTH, False).check(Limits(8, 1))
    both = BothOrders(DECODER, True)
    both.check(Limits(5, row=10))
    with pytest.raises(ValueError, match="length: 9 is too short for 2 documents; it must be at least 10"):
        both.check(Limits(5, row=9))
