"""Masks of transformers as documents, and labels as the tokens of a target."""

from typing import Any

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


class Documents(torch.nn.Module):
    """Document numbers as a module, which torch.export asks for."""

    def forward(self, mask: torch.Tensor, row: torch.Tensor) -> Any:
        return documents_of(mask, row)


@pytest.mark.parametrize("mask", [MASK, torch.ones_like(MASK)])
def test_a_mask_is_no_branch_of_an_exported_program(mask: torch.Tensor):
    any_size = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
    given = torch.export.export(Documents(), (mask, ROW), dynamic_shapes=(any_size, any_size))
    for rows in (mask, 1 - mask, torch.eye(3, 7).long()):
        assert torch.equal(given.module()(rows, torch.zeros(len(rows), 3)), rows[:, -3:])
