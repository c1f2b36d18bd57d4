"""The loss of choices: a softmax over the choices of each example, counted by examples, wherever they lie in a row."""

import dataclasses

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from zoo.data.columns.lists import MOST_CHOICES
from zoo.data.ids import Lengths, Piece, Roles
from zoo.examples.form import Limits, ModelTraits
from zoo.examples.forms.choices import Choices
from zoo.examples.randomness import Purpose, Randomness
from zoo.models.heads.scores import Scores
from zoo.objectives.kinds.choice import FIRST, RIGHT, RightChoice

# two examples, of three choices and of two, one of which the answer is unknown, and one of two
TARGETS = torch.tensor([FIRST, RIGHT, 0, FIRST + RIGHT, 0, -1, -1, -1, FIRST, RIGHT])
GROUPS = [(slice(0, 3), 1), (slice(3, 5), 0), (slice(8, 10), 1)]


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_is_the_cross_entropy_of_each_example_over_its_own_choices(smoothing: float):
    logits = torch.randn(10, 1, dtype=torch.float64, requires_grad=True)
    term = RightChoice(label_smoothing=smoothing).term(Scores.from_logits(logits), TARGETS)
    pairs = [(logits[group, 0], torch.tensor(right)) for group, right in GROUPS]
    wanted = sum(cross_entropy(*pair, label_smoothing=smoothing) for pair in pairs)
    torch.testing.assert_close(term.sum, wanted)
    torch.testing.assert_close(term.likelihood, sum(map(lambda pair: cross_entropy(*pair), pairs)))
    assert int(term.count) == 3
    (gradient,), (expected,) = torch.autograd.grad(term.sum, logits), torch.autograd.grad(wanted, logits)
    torch.testing.assert_close(gradient, expected)


def test_an_example_may_have_as_many_choices_as_data_may_have():
    logits = torch.randn(MOST_CHOICES + 2, dtype=torch.float64)
    targets = torch.zeros(len(logits), dtype=torch.long)
    logits[MOST_CHOICES - 1] = logits[MOST_CHOICES] = 9.0
    targets[0], targets[MOST_CHOICES - 1], targets[MOST_CHOICES] = FIRST, RIGHT, FIRST + RIGHT
    term = RightChoice().term(Scores.from_logits(logits[:, None]), targets)
    wanted = cross_entropy(logits[:MOST_CHOICES], torch.tensor(MOST_CHOICES - 1))
    torch.testing.assert_close(term.sum, wanted + cross_entropy(logits[MOST_CHOICES:], torch.tensor(0)))
    assert [int(number) for number in term.measured["accuracy"]] == [2, 2]


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_a_single_choice_costs_nothing(smoothing: float):
    targets = torch.tensor([FIRST + RIGHT, FIRST, RIGHT])
    logits = torch.tensor([[3.0], [1.0], [-2.0]], dtype=torch.float64)
    both, other = (RightChoice(label_smoothing=smoothing).term(Scores.from_logits(logits[some]), targets[some])
                   for some in (slice(0, 3), slice(1, 3)))  # fmt: skip
    torch.testing.assert_close(both.sum, other.sum)
    assert (int(both.count), int(other.count)) == (2, 1)


def test_an_answer_is_right_where_its_score_is_the_highest_of_its_example():
    scores = torch.tensor([0.0, 2.0, 9.0, 1.0, 0.0, 9.0, 9.0, 9.0, 3.0, 4.0])[:, None]
    right, asked = RightChoice().term(Scores.from_logits(scores), TARGETS).measured["accuracy"]
    assert (int(right), int(asked)) == (2, 3)


def test_scores_that_bfloat16_rounds_to_one_number_are_told_apart_as_predictions_do():
    states = torch.tensor([[1.0, 0.0], [1.0, 0.001], [1.0, 0.0], [1.0, 0.001], [1.0, 0.0]], dtype=torch.bfloat16)
    scores = Scores(states, torch.tensor([[1.0, 1.0]]))
    targets = torch.tensor([FIRST, RIGHT, 0, FIRST, RIGHT])
    right, asked = RightChoice().term(scores, targets).measured["accuracy"]
    assert (int(right), int(asked)) == (1, 2)


ROLES = Roles(vocab_size=1000, pad=0, unk=1, start=2, end=3, separator=4, extract=5, mask=6)
LENGTHS = Lengths(
    {"context": np.array([0, 3]), "choices": np.array([0, 1, 3, 4])},
    labels=np.array([2]),
    lists={"choices": np.array([0, 3])},
)


def test_a_row_that_is_too_short_for_its_choices_is_refused():
    lengths = Lengths({}, lists={"choices": np.array([0, 2, 5, 9])})
    obstacle = RightChoice(truncate=True).obstacle_in(lengths, Limits(12, row=14))
    assert obstacle is not None and obstacle.document == 1
    assert obstacle.reason == "a sequence of 14 tokens is too short for its 3 choices; 'length' must be at least 20"
    assert RightChoice(truncate=True).obstacle_in(lengths, Limits(12, row=20)) is None


# of two documents the contexts have 3 and 9 tokens; the choices 1, 2, 1 and 4, 0
TWO = Lengths(
    {"context": np.array([0, 3, 12]), "choices": np.array([0, 1, 3, 4, 8, 8])}, lists={"choices": np.array([0, 3, 5])}
)


@pytest.mark.parametrize(
    ("limits", "document", "said"),
    [
        (Limits(16, row=32), None, ""),
        (Limits(15, row=32), 1, "are 16 tokens long, special tokens included, and an example has at most 15"),
        (
            Limits(16, row=31),
            1,
            "31 holds 2 examples of 15; 'length' must be at least 32 for all of them; ",
        ),
        (Limits(7, row=32), 0, "are 8 tokens long"),
        (Limits(7, row=22), 0, "at least 32 for all of them, and 'longest' and the model's max_length at least 16; to"),
        (Limits(16, row=23), 0, "a sequence of 23 holds 3 examples of 7; 'length' must be at least 32 for all"),
    ],
)
def test_the_first_context_that_is_too_long_for_its_choices_is_named_unless_it_is_truncated(
    limits: Limits, document: int | None, said: str
) -> None:
    found = RightChoice().obstacle_in(TWO, limits)
    assert (None if found is None else found.document) == document
    assert found is None or (said in found.reason and "set objective: {choice: {truncate: true}}" in found.reason)
    assert RightChoice(truncate=True).obstacle_in(TWO, limits) is None
    cut = [Choices(ModelTraits(causal=True), True).plan(TWO, n, 0, 0, limits)[0].truncated > 0 for n in range(2)]
    assert cut.index(True) == document if any(cut) else document is None  # what planning would truncate


@pytest.mark.parametrize("row", [7, 10, 14, 15, 20, 31])
def test_the_length_that_a_short_row_needs_is_enough_at_once(row: int) -> None:
    found = RightChoice().obstacle_in(
        TWO, Limits(row, row=row)
    )  # the task names no `longest`, and the model reads more
    assert found is not None and "'length' must be at least 32" in found.reason
    assert RightChoice().obstacle_in(TWO, Limits(32, row=32)) is None


NOTHING = Lengths({"context": np.array([0]), "choices": np.array([0])}, lists={"choices": np.array([0])})


def test_documents_without_choices_have_none_that_is_too_long() -> None:
    offsets = {"context": np.array([0, 90, 180, 190]), "choices": np.array([0, 80])}
    lengths = Lengths(offsets, lists={"choices": np.array([0, 0, 1, 1])})
    found = RightChoice().obstacle_in(lengths, Limits(180, row=180))
    assert found is None
    found = RightChoice().obstacle_in(lengths, Limits(172, row=180))
    assert found is not None and found.document == 1
    assert RightChoice().obstacle_in(NOTHING, Limits(2, row=2)) is None


def read(piece: Piece) -> np.ndarray:
    return np.arange(piece.start, piece.stop, dtype=np.int64) + {"context": 100, "choices": 200}[piece.field]


@pytest.mark.parametrize(("label", "targets"), [(0, [FIRST + RIGHT, 0, 0]), (2, [FIRST, 0, RIGHT]), (-1, [-1] * 3)])
def test_the_right_choice_is_marked_and_an_unknown_one_is_not_scored(label: int, targets: list[int]):
    form = Choices(ModelTraits(causal=False, segments=True), True)
    (plan,) = form.plan(LENGTHS, 0, 0, 0, Limits(20, row=64))
    example = dataclasses.replace(form.build(plan, read, ROLES), label=label)
    RightChoice().annotate(example, Randomness(Purpose.EXAMPLE, 0), ROLES)
    assert example.targets["choice"].tolist() == targets


def test_each_choice_is_a_document_with_the_context():
    form = Choices(ModelTraits(causal=False, segments=True), True)
    (plan,) = form.plan(LENGTHS, 0, 0, 0, Limits(20, row=64))
    example = form.build(plan, read, ROLES)
    assert [document.tolist() for document in example.split()] == [
        [2, 100, 101, 102, 4, 200, 4],
        [2, 100, 101, 102, 4, 201, 202, 4],
        [2, 100, 101, 102, 4, 203, 4],
    ]
    assert plan.length == len(example.tokens) == 22 and plan.truncated == 0
    assert RightChoice().scored(plan) == 3
    RightChoice().annotate(example, Randomness(Purpose.EXAMPLE, 0), ROLES)
    assert example.places["choice"].tolist() == [0, 7, 15]
    assert example.targets["choice"].tolist() == [FIRST, 0, RIGHT]


def test_a_decoder_reads_each_choice_at_its_last_position():
    form = Choices(ModelTraits(causal=True), True)
    (plan,) = form.plan(LENGTHS, 0, 0, 0, Limits(20, row=64))
    example = form.build(plan, read, ROLES)
    RightChoice().annotate(example, Randomness(Purpose.EXAMPLE, 0), ROLES)
    assert example.tokens[example.places["choice"]].tolist() == [5, 5, 5]


def test_all_choices_of_an_example_fit_in_a_row():
    (plan,) = Choices(ModelTraits(causal=False), True).plan(LENGTHS, 0, 0, 0, Limits(20, row=18))
    assert plan.length <= 18 and plan.truncated == 22 - plan.length
