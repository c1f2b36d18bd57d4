"""Claims about the losses of zoo's own classes in transformers: what they are divided by."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from zoo.hub.modeling.losses import binary_loss, detection_loss, mean_loss, squared_loss

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


def test_rows_without_a_label_cost_nothing():
    assert mean_loss(torch.randn(2, 3, 5), NONE) == detection_loss(torch.randn(2, 3, 1), NONE) == 0
