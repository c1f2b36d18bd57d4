"""Masks of transformers as documents, and labels as the tokens of a target."""

import pytest
import torch

from zoo.hub.modeling.inputs import documents_of, shift

ROW = torch.zeros(2, 3)
MASK = torch.tensor([[0, 1, 1, 0, 1], [1, 1, 1, 1, 1]])


def test_a_mask_speaks_of_the_last_positions_and_one_that_shows_all_of_them_is_none():
    found = documents_of(MASK, ROW)
    assert found is not None and found.tolist() == [[1, 0, 1], [1, 1, 1]]
    assert documents_of(MASK[1:].expand(2, 5), ROW) is None and documents_of(None, ROW) is None


@pytest.mark.parametrize("mask", [MASK[:1], MASK[:, :2], MASK[None]])
def test_what_is_no_mask_of_the_rows_is_refused(mask: torch.Tensor):
    with pytest.raises(ValueError, match=r"attention_mask: expected one number per token, \(2, 3\); got"):
        documents_of(mask, ROW)


def test_what_does_not_count_of_labels_is_padding_one_position_later():
    assert shift(torch.tensor([[5, -100, 7], [8, 9, -100]]), start=1, padding=2).tolist() == [[1, 5, 2], [1, 8, 9]]
