"""Claims about the losses of zoo's own classes in transformers: what they are divided by."""

from collections.abc import Callable

import pytest
import torch
from shell_choices import CLASSES, MIXED, SCALED, Shelled, load
from torch import Tensor
from torch.nn import functional

from zoo.hub.modeling.losses import binary_loss, detection_loss, mean_loss, place_loss, problem_of, squared_loss

NONE = torch.full((2, 3), -100)
CASES = [
    (mean_loss, torch.randn(2, 3, 5), torch.tensor([[4, -100, 0], [1, 1, -100]]), 4),
    (binary_loss, torch.randn(2, 3), torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]), 6),
    (squared_loss, torch.randn(3, 1), torch.tensor([0.5, -1.0, 2.0]), 3),
    (detection_loss, torch.randn(2, 3, 1), torch.tensor([[1, -100, 0], [0, 1, -100]]), 4),
]


@pytest.mark.parametrize(("loss", "logits", "labels", "count"), CASES)
def test_a_part_of_a_step_is_divided_by_the_labels_of_the_whole(
    loss: Callable[..., Tensor], logits: Tensor, labels: Tensor, count: int
):
    assert loss(logits, labels) > 0
    torch.testing.assert_close(loss(logits, labels, 2 * count), loss(logits, labels) / 2)


def test_losses_are_those_of_torch():
    (_, words, kinds, _), (_, several, sets, _), (_, scores, numbers, _), (_, odds, found, _) = CASES
    known = found != -100
    wanted = [
        functional.cross_entropy(words.flatten(0, 1), kinds.flatten(), ignore_index=-100),
        functional.binary_cross_entropy_with_logits(several, sets),
        functional.mse_loss(scores[:, 0], numbers),
        functional.binary_cross_entropy_with_logits(odds[..., 0][known], found[known].float()),
    ]
    for (loss, logits, labels, _), expected in zip(CASES, wanted, strict=True):
        torch.testing.assert_close(loss(logits, labels), expected)
    half = words.bfloat16()
    assert torch.equal(mean_loss(half, kinds), mean_loss(half.float(), kinds))


def test_labels_without_a_problem_type_are_what_transformers_takes_them_for():
    said = [problem_of(torch.ones(2, n), labels) for n in (1, 3) for labels in (torch.ones(2).long(), torch.ones(2, n))]
    one, several = "single_label_classification", "multi_label_classification"
    assert said == ["regression", "regression", one, several]


def test_a_problem_type_in_the_config_decides_whatever_the_labels_look_like(shelled: Shelled):
    model, labels = load(shelled("gpt2-nano", {**MIXED, **CLASSES})), torch.tensor([[0.0, 1.0, 1.0]])
    model.config.problem_type = "regression"
    said = model(torch.tensor([[2, 9, 4]]), labels=labels)
    torch.testing.assert_close(said.loss, functional.mse_loss(said.logits, labels))


def test_rows_without_a_label_cost_nothing():
    assert mean_loss(torch.randn(2, 3, 5), NONE) == detection_loss(torch.randn(2, 3, 1), NONE) == 0


@pytest.mark.parametrize("left", [False, True])
def test_padding_changes_no_loss_of_an_answer(shelled: Shelled, left: bool):
    """The loss of a batch is the mean of its rows' own, as in zoo's training."""
    model, rows = load(shelled("bert-nano", {**SCALED, "heads": ["span"]})), [[2, 9, 4, 10, 11, 4], [2, 9, 4]]
    alone = [
        model(torch.tensor([row]), start_positions=torch.tensor([1]), end_positions=torch.tensor([2])) for row in rows
    ]
    shift, padding = 3 * left, [0, 0, 0]
    ids = torch.tensor([rows[0], padding + rows[1] if left else rows[1] + padding])
    begins, ends = torch.tensor([1, 1 + shift]), torch.tensor([2, 2 + shift])
    said = model(ids, attention_mask=(ids > 0).long(), start_positions=begins, end_positions=ends)
    torch.testing.assert_close(said.loss, (alone[0].loss + alone[1].loss) / 2)


def test_positions_may_be_a_column_as_in_transformers():
    logits, places = torch.randn(2, 3), torch.tensor([2, 0])
    torch.testing.assert_close(place_loss(logits, places[:, None]), functional.cross_entropy(logits, places))


def test_an_answer_in_padding_does_not_count():
    logits, mask = torch.randn(2, 3, requires_grad=True), torch.tensor([[1, 1, 0], [0, 0, 0]])
    assert place_loss(logits, torch.tensor([2, 1]), mask) == 0
    place_loss(logits, torch.tensor([1, 1]), mask).backward()
    assert logits.grad is not None and logits.grad.isfinite().all() and not logits.grad[mask == 0].any()
