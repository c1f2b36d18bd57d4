"""Questions with windows of their context as examples: what is marked, and what is the truth of each window."""

import numpy as np
import pytest

from zoo.data.ids import Lengths, Piece, Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Limits, ModelTraits
from zoo.examples.forms.span import Span

ROLES = Roles(vocab_size=1000, pad=0, unk=1, start=2, end=3, separator=4, extract=5, mask=6)
BASES = {"question": 100, "context": 200}


def windows(
    question: int, context: int, answers: list[int], longest: int, stride: int = 2
) -> list[tuple[ExamplePlan, Example]]:
    before = 3  # another document stands before
    sizes = {"question": question, "context": context, "answers": len(answers)}
    lengths = Lengths({name: np.array([0, before, before + size]) for name, size in sizes.items()})

    def read(piece: Piece) -> np.ndarray:
        if piece.field == "answers":
            return np.array([0] * before + answers, dtype=np.int64)[piece.start : piece.stop]
        return np.arange(piece.start, piece.stop, dtype=np.int64) - before + BASES[piece.field]

    form = Span(ModelTraits(causal=False, segments=True), True, stride=stride)
    return [(plan, form.build(plan, read, ROLES)) for plan in form.plan(lengths, 1, 0, 0, Limits(longest))]


def truth(example: Example) -> list[int]:
    assert example.truth is not None
    return example.truth.tolist()


def test_a_context_that_fits_is_one_example_with_the_answer_at_its_first_and_last_token():
    [(plan, example)] = windows(2, 5, [1, 3], longest=10)
    assert example.tokens.tolist() == [2, 100, 101, 4, 200, 201, 202, 203, 204, 4]
    assert example.marked is not None and example.marked.tolist() == [4, 5, 6, 7, 8]
    assert truth(example) == [5, 6] and plan.length == 10
    assert example.segments is not None and example.segments.tolist() == [0] * 4 + [1] * 6


def test_windows_overlap_and_leave_no_token_out():
    found = [example.tokens[3:-1].tolist() for _, example in windows(1, 6, [], longest=7)]
    assert found == [[200, 201, 202], [202, 203, 204], [204, 205]]


def test_a_stride_wider_than_a_window_is_half_of_it():
    found = [example.tokens[3:-1].tolist() for _, example in windows(1, 6, [], longest=7, stride=100)]
    assert found == [[200, 201, 202], [202, 203, 204], [204, 205]]


@pytest.mark.parametrize("longest", range(6, 16))
def test_an_answer_of_half_a_window_is_whole_in_one(longest: int):
    room = longest - 4
    for start in range(20 - room // 2):
        found = windows(1, 20, [start, start + room // 2], longest, stride=100)
        assert room == 2 or any(truth(example) != [0, 0] for _, example in found), start


def test_a_window_without_the_whole_answer_points_to_its_first_position():
    assert [truth(example) for _, example in windows(1, 6, [2, 4], longest=7)] == [[0, 0], [3, 4], [0, 0]]


def test_the_first_answer_that_lies_in_a_window_is_its_truth():
    assert [truth(example) for _, example in windows(1, 6, [4, 6, 0, 1], longest=7)] == [[3, 3], [0, 0], [3, 4]]
    assert [truth(example) for _, example in windows(1, 6, [4, 6, 0, 1], longest=10)] == [[7, 8]]  # both lie in it


@pytest.mark.parametrize("longest", [9, 10])
def test_a_question_takes_at_most_half_and_the_rest_is_counted_once(longest: int):
    found = windows(8, 5, [], longest)
    assert [plan.truncated for plan, _ in found] == [5, *[0] * (len(found) - 1)]
    assert all(example.tokens[1:4].tolist() == [100, 101, 102] for _, example in found)
