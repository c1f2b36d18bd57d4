"""The loss of answers is a softmax over the positions of each document, counted by documents."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from zoo.data.ids import NO_ROLES, Lengths
from zoo.examples.example import Example
from zoo.examples.form import Limits
from zoo.examples.forms.span import Span
from zoo.examples.randomness import Purpose, Randomness
from zoo.models.heads.scores import Scores
from zoo.objectives.kinds.span import ALLOW, BEGINS, CONTEXT, ENDS, FIRST, AnswerSpan, most_in_row, span_loss

# two documents of 3 and 2 positions beside padding; one of 4; none
TARGETS = torch.tensor(
    [
        [FIRST, CONTEXT + BEGINS, CONTEXT + ENDS, FIRST + BEGINS + ENDS, CONTEXT, -1],
        [FIRST, 0, CONTEXT + BEGINS + ENDS, CONTEXT, -1, -1],
        [-1] * 6,
    ]
)
DOCUMENTS = [(0, 0, 3, (1, 2)), (0, 3, 5, (0, 0)), (1, 0, 4, (2, 2))]  # row, first, last, where it begins, ends


def test_the_loss_is_the_mean_of_both_cross_entropies_over_the_positions_of_a_document():
    logits = torch.randn(3, 6, 2, dtype=torch.float64, requires_grad=True)
    term = AnswerSpan().term(Scores.from_logits(logits), TARGETS)
    wanted = sum(
        cross_entropy(logits[row, first:last, kind], torch.tensor(right[kind])) / 2
        for row, first, last, right in DOCUMENTS
        for kind in (0, 1)
    )
    torch.testing.assert_close(term.sum, wanted)
    assert int(term.count) == 3
    (gradient,) = torch.autograd.grad(term.sum, logits)
    (expected,) = torch.autograd.grad(wanted, logits)
    torch.testing.assert_close(gradient, expected)


def test_targets_say_where_the_document_its_context_and_its_answer_begin_and_end():
    tokens, marked, truth = np.arange(6), np.array([2, 3, 4]), np.array([3, 4])
    example = Example(tokens, tokens > 1, tokens, marked=marked, truth=truth)
    AnswerSpan().annotate(example, Randomness(Purpose.EXAMPLE, 0), NO_ROLES)
    assert example.targets["span"].tolist() == [FIRST, 0, CONTEXT, CONTEXT + BEGINS, CONTEXT + ENDS, 0]
    assert (AnswerSpan().nonempty_lists, AnswerSpan(no_answer=True).nonempty_lists) == ({"answers": ALLOW}, {})


def test_positions_beside_documents_cost_nothing_and_get_no_gradient():
    logits = torch.randn(3, 6, 2, requires_grad=True)
    AnswerSpan().term(Scores.from_logits(logits), TARGETS).sum.backward()
    assert logits.grad is not None and logits.grad.isfinite().all()
    assert not logits.grad[TARGETS < 0].any() and logits.grad[TARGETS >= 0].all()


def test_the_loss_of_a_long_row_takes_memory_for_the_documents_that_are_there_alone():
    logits, sizes = torch.randn(2, 1000, 2, requires_grad=True), list[int]()
    targets = torch.full((2, 1000), -1)
    targets[0, :300], targets[0, 0] = 0, FIRST + BEGINS + ENDS

    def pack(kept: torch.Tensor) -> torch.Tensor:
        sizes.append(kept.numel())
        return kept

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept):
        span_loss(logits, targets).backward()
    assert max(sizes) <= logits.numel()


def test_where_rows_are_not_read_there_is_room_for_as_many_documents_as_fit():
    assert most_in_row(torch.empty(2, 4 * Span.min_length + 1, dtype=torch.long, device="meta")) >= 4


def test_questions_without_an_answer_are_refused_unless_there_may_be_none():
    lengths = Lengths({"answers": np.array([0, 2, 2, 6])})
    obstacle = AnswerSpan().obstacle_in(lengths, Limits(8, row=8))
    assert obstacle is not None and obstacle.document == 1
    assert obstacle.reason == (
        "the question has no answer (1 of 3 have none); if questions may have none, set "
        "objective: {span: {no_answer: true}}"
    )
    assert AnswerSpan(no_answer=True).obstacle_in(lengths, Limits(8, row=8)) is None


def test_a_stride_of_no_tokens_is_refused():
    with pytest.raises(ValueError, match="stride must be at least 1, got 0"):
        AnswerSpan(stride=0)
